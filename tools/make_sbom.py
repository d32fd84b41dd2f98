#!/usr/bin/env python3
"""The components of a build as SPDX 2.3 in JSON: tools/make_sbom.py [BUILD_DIR [FOLDER]] > sbom.spdx.json

Reads the programs and libraries in BUILD_DIR (build), or those below FOLDER, an installed tree: which shared libraries each
of them needs, as the linker wrote it, and which of Debian's packages has these.  CMakeCache.txt tells the compiler and where the
definition of ONNX comes from, whose translation the library contains.  A library without a line in LIBRARIES is an error.
The time is $SOURCE_DATE_EPOCH's, or the commit's: equal builds have equal lists.  tests/cli/sbom.sh checks the list.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT = ("dpexec", "graph-transform", "libdpexec.so", "libdpexec_openmpi.so", "libdpexec_mpich.so", "libdpexec_cuda.so")
GCC, GLIBC = "GPL-3.0-or-later WITH GCC-exception-3.1", "LGPL-2.1-or-later"
NVIDIA = "LicenseRef-NVIDIA"
LIBRARIES = {  # a library's name up to ".so": its project, licence and home
    "ld-linux-x86-64": ("glibc", GLIBC, "https://sourceware.org/glibc/"),
    "ld-linux-aarch64": ("glibc", GLIBC, "https://sourceware.org/glibc/"),
    "libc": ("glibc", GLIBC, "https://sourceware.org/glibc/"),
    "libm": ("glibc", GLIBC, "https://sourceware.org/glibc/"),
    "libmvec": ("glibc", GLIBC, "https://sourceware.org/glibc/"),
    "libgcc_s": ("libgcc", GCC, "https://gcc.gnu.org"),
    "libgomp": ("libgomp", GCC, "https://gcc.gnu.org"),
    "libstdc++": ("libstdc++", GCC, "https://gcc.gnu.org"),
    "libomp": ("libomp", "Apache-2.0 WITH LLVM-exception", "https://openmp.llvm.org"),
    "libjansson": ("jansson", "MIT", "https://github.com/akheron/jansson"),
    "libxxhash": ("xxHash", "BSD-2-Clause", "https://xxhash.com"),
    "libsodium": ("libsodium", "ISC", "https://libsodium.org"),
    "libprotobuf-c": ("protobuf-c", "BSD-2-Clause", "https://github.com/protobuf-c/protobuf-c"),
    "libre2": ("RE2", "BSD-3-Clause", "https://github.com/google/re2"),
    "libdnnl": ("oneDNN", "Apache-2.0", "https://github.com/uxlfoundation/oneDNN"),
    "libzip": ("libzip", "BSD-3-Clause", "https://libzip.org"),
    "libz": ("zlib", "Zlib", "https://zlib.net"),
    "libjpeg": ("libjpeg-turbo", "IJG AND BSD-3-Clause AND Zlib", "https://libjpeg-turbo.org"),
    "libpng16": ("libpng", "libpng-2.0", "http://www.libpng.org/pub/png/libpng.html"),
    "libpcre2-8": ("PCRE2", "BSD-3-Clause", "https://www.pcre.org"),
    "libutf8proc": ("utf8proc", "MIT AND Unicode-DFS-2015", "https://juliastrings.github.io/utf8proc/"),
    "libwebp": ("libwebp", "BSD-3-Clause", "https://developers.google.com/speed/webp"),
    "libarchive": ("libarchive", "BSD-2-Clause", "https://www.libarchive.org"),
    "libmpi": ("Open MPI", "BSD-3-Clause-Open-MPI", "https://www.open-mpi.org"),
    "libmpich": ("MPICH", "mpich2", "https://www.mpich.org"),
    "libcudart": ("CUDA runtime", NVIDIA, "https://developer.nvidia.com/cuda-toolkit"),
    "libnvrtc": ("NVRTC", NVIDIA, "https://developer.nvidia.com/cuda-toolkit"),
    "libcublasLt": ("cuBLAS", NVIDIA, "https://developer.nvidia.com/cublas"),
    "libcudnn": ("cuDNN", NVIDIA, "https://developer.nvidia.com/cudnn"),
    "libnccl": ("NCCL", "BSD-3-Clause", "https://developer.nvidia.com/nccl"),
}
REFERENCES = {NVIDIA: "NVIDIA Software License Agreement, https://docs.nvidia.com/cuda/eula/"}


def output(*command):
    """What a command prints; "" where it is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def cached(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


def spdx_id(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", text.replace("+", "plus")).strip("-")


def debian_package(path):
    """(name, version) of the package that a file belongs to; ("", "") where no package has it."""
    real = os.path.realpath(path)
    for candidate in (path, real, real.removeprefix("/usr"), "/usr" + real):
        name = output("dpkg-query", "-S", candidate).split(": ")[0].split(",")[0]
        if name:
            return output("dpkg-query", "-W", "-f", "${Package}\t${Version}", name).split("\t")
    return "", ""


def package(project, licence, home, path, purpose="LIBRARY"):
    name, version = debian_package(path) if path else ("", "")
    distribution = output("sh", "-c", ". /etc/os-release; echo $ID-$VERSION_ID").strip()
    entry = {"SPDXID": spdx_id(project), "name": project, "versionInfo": version or re.sub(r".*\.so\.?", "", os.path.realpath(path or "")),
             "downloadLocation": home, "filesAnalyzed": False, "licenseDeclared": licence, "licenseConcluded": licence,
             "copyrightText": "NOASSERTION", "primaryPackagePurpose": purpose}
    if name:
        purl = f"pkg:deb/{distribution.split('-')[0]}/{name.replace('+', '%2B')}@{version.replace('+', '%2B').replace(':', '%3A')}?distro={distribution}"
        entry["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]
    return {k: v for k, v in entry.items() if v != ""}


def needed(path):
    """(name, path) of each shared library that the file itself needs."""
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", str(path)))
    where = dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", str(path)), re.M))
    return [(n, where.get(n, f"/lib64/{n}" if n.startswith("ld-") else "")) for n in names]


def built_files(build, folder):
    if not folder:
        return [(name, build / name) for name in BUILT if (build / name).exists()]
    found = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink() and p.open("rb").read(4) == b"\x7fELF"]
    return [(str(p.relative_to(folder)), p) for p in found]


def file_entry(name, path):
    data = path.read_bytes()
    sums = [{"algorithm": a.upper(), "checksumValue": hashlib.new(a, data).hexdigest()} for a in ("sha1", "sha256")]
    return {"SPDXID": spdx_id("file-" + name), "fileName": "./" + name, "fileTypes": ["BINARY"], "checksums": sums,
            "licenseConcluded": "MIT", "licenseInfoInFiles": ["MIT"], "copyrightText": "2026 The dpexec developers"}


def created():
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or output("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip()
    when = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc) if epoch else datetime.datetime.now(datetime.timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def product(files):
    """dpexec itself, with the code over its files that SPDX defines."""
    sums = sorted(f["checksums"][0]["checksumValue"] for f in files)
    header = (ROOT / "include" / "dpexec.h").read_text()
    version = ".".join(re.search(rf"DPX_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))
    return {"SPDXID": "SPDXRef-dpexec", "name": "dpexec", "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": True,
            "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1("".join(sums).encode()).hexdigest()},
            "hasFiles": [f["SPDXID"] for f in files], "licenseDeclared": "MIT", "licenseConcluded": "MIT",
            "licenseInfoFromFiles": ["MIT"], "copyrightText": "2026 The dpexec developers", "primaryPackagePurpose": "APPLICATION"}


def document(build, folder):
    files, packages, relations = [], {}, [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-dpexec")]
    unknown = set()
    for name, path in built_files(build, folder):
        files.append(file_entry(name, path))
        libraries = needed(path)
        unknown |= {name for name, _ in libraries if not name.startswith("libdpexec.so") and name.split(".so")[0] not in LIBRARIES}
        if unknown:
            continue
        for project, *rest in ((*LIBRARIES[n.split(".so")[0]], where) for n, where in libraries if not n.startswith("libdpexec.so")):
            if project not in packages:      # dpkg-query is slow
                packages[project] = package(project, *rest)
            relations.append((files[-1]["SPDXID"], "DYNAMIC_LINK", spdx_id(project)))
    if unknown:
        sys.exit(f"tools/make_sbom.py: LIBRARIES has no line for {', '.join(sorted(unknown))}")
    if not files:
        sys.exit(f"tools/make_sbom.py: {folder or build}: expected programs or libraries, found none")
    proto, dlpack = cached(build, "DPX_ONNX_PROTO"), cached(build, "DLPACK_INCLUDE") + "/dlpack/dlpack.h"
    for project, licence, home, path, relation, purpose in (
            ("onnx.proto", "Apache-2.0", "https://github.com/onnx/onnx", proto, "CONTAINS", "SOURCE"),
            ("DLPack", "Apache-2.0", "https://github.com/dmlc/dlpack", dlpack, "BUILD_DEPENDENCY_OF", "SOURCE"),
            ("protoc-c", "BSD-2-Clause", "https://github.com/protobuf-c/protobuf-c", cached(build, "PROTOC_C"), "BUILD_TOOL_OF", "APPLICATION"),
            ("C compiler", "NOASSERTION", "NOASSERTION", cached(build, "CMAKE_C_COMPILER"), "BUILD_TOOL_OF", "APPLICATION")):
        packages[project] = package(project, licence, home, path, purpose)
        ends = ("SPDXRef-dpexec", spdx_id(project))
        relations.append((ends[0], relation, ends[1]) if relation == "CONTAINS" else (ends[1], relation, ends[0]))
    files.sort(key=lambda f: f["SPDXID"])
    main = product(files)
    listed = [main, *sorted(packages.values(), key=lambda p: p["SPDXID"])]
    digest = hashlib.sha256(json.dumps([files, listed], sort_keys=True).encode()).hexdigest()
    licences = {r for p in listed for r in REFERENCES if r in p["licenseDeclared"]}
    return {"spdxVersion": "SPDX-2.3", "SPDXID": "SPDXRef-DOCUMENT", "dataLicense": "CC0-1.0", "name": f"dpexec-{main['versionInfo']}",
            "documentNamespace": f"https://spdx.org/spdxdocs/dpexec-{main['versionInfo']}-{digest}",
            "creationInfo": {"created": created(), "creators": ["Tool: dpexec-make_sbom.py"]},
            "packages": listed, "files": files,
            "relationships": [{"spdxElementId": a, "relationshipType": r, "relatedSpdxElement": b} for a, r, b in sorted(set(relations))],
            **({"hasExtractedLicensingInfos": [{"licenseId": r, "extractedText": REFERENCES[r]} for r in sorted(licences)]} if licences else {})}


if __name__ == "__main__":
    where = [pathlib.Path(a) for a in sys.argv[1:]] or [ROOT / "build"]
    if not (where[0] / "CMakeCache.txt").exists():
        sys.exit(f"tools/make_sbom.py: {where[0]}: expected a build folder, found no CMakeCache.txt in it")
    json.dump(document(where[0], where[1] if len(where) > 1 else None), sys.stdout, indent=1, sort_keys=True)
    print()
