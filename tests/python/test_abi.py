"""The structs and functions that the package binds are those of the header."""
import ctypes
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from dpexec import _abi, errors

root = pathlib.Path(__file__).resolve().parent.parent.parent
header = "\n".join((root / "include" / part).read_text() for part in ("dpexec.h", "dpexec_world.h", "dpexec_data.h"))
sized_header = (root / "include" / "dpexec_sized.h").read_text()


class Layout(unittest.TestCase):
    def test_structs_and_constants_are_those_that_the_compiler_has(self):
        lines = ["#include <stddef.h>", "#include <stdio.h>", '#include "dpexec.h"', "int main(void) {"]
        bound = []
        for name, struct in _abi.STRUCTS.items():
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            bound.append((name, ctypes.sizeof(struct)))
            for field, _ in struct._fields_:
                lines.append(f'printf("%zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
                at = getattr(struct, field)
                bound.append((f"{name}.{field}", f"{at.offset} {at.size}"))
        for name, value in vars(_abi).items():
            if name.isupper() and isinstance(value, int):
                lines.append(f'printf("%d\\n", (int)DPX_{name});')
                bound.append((name, value))
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "layout.c"), pathlib.Path(folder, "layout")
            source.write_text("\n".join([*lines, "return 0; }"]))
            compiler = os.environ.get("DPEXEC_CC", "cc")
            subprocess.run([compiler, "-I", root / "include", source, "-o", program], check=True)
            found = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual([f"{name}: {text}" for name, text in bound],
                         [f"{name}: {text}" for (name, _), text in zip(bound, found, strict=True)])

    def test_functions_take_as_many_arguments_as_the_header_says(self):
        text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        declared = {}
        for name, arguments in re.findall(r"DPX_(?:API|SIZED) [\w *]*?\b(dpx_\w+)\(([^;]*?)\)(?: DPX_CHECKED)?;", text):
            declared[name] = 0 if arguments == "void" else arguments.count(",") + 1
        for name, arguments in {**_abi._STATUS, **{n: a for n, (_, a) in _abi._OTHER.items()}}.items():
            self.assertIn(name, declared)
            self.assertEqual(len(arguments), declared[name], name)

    def test_functions_of_structs_that_may_grow_get_the_size_of_theirs(self):
        declared = dict(re.findall(r"return (dpx_\w+)_sized\(.*sizeof\((dpx_\w+)\)\);", sized_header))
        for name in _abi._STATUS:
            self.assertEqual(declared.get(name) and _abi.STRUCTS[declared[name]], _abi.SIZED.get(name), name)

    def test_every_status_has_an_exception(self):
        statuses = header[header.index("DPX_OK = 0") : header.index("} dpx_status;")]
        self.assertEqual(sorted(map(int, re.findall(r"= (-\d+)", statuses))), sorted(errors._KINDS))
