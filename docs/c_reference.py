#!/usr/bin/env python3
"""The reference of the C API, from the comments of include/dpexec*.h.

    c_reference.py --check          lines for functions whose comment, or whose part of the header, says too little
    c_reference.py --man DIR        a man page (section 3) for each function, and dpexec.3 with the list of them
    c_reference.py --filter FILE    a header as Doxygen reads it (INPUT_FILTER; the CMake target `reference`)

A comment belongs to the declarations below it, down to an empty line or the next comment; a comment behind a
declaration belongs to that one.  Below the title of a part of the header, `/* ---- title ---- */`, stands a comment with
"Errors: ..." and "Threads: ...", which holds for every function of the part.
"""
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"
TITLE = re.compile(r"/\* ---- (.*?) ---- \*/")
PIECE = re.compile(
    r"(?P<comment>/\*.*?\*/)|(?P<line>^[ \t]*#(?:\\\n|[^\n])*)|(?P<blank>\n[ \t]*\n)|(?P<space>\s+)|"
    r"(?P<body>\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})|(?P<word>[^\s{}/;#]+|/)|(?P<end>;)", re.S | re.M)


class Declaration:
    """A function, type or constant: its text in C, its comment, and the part of the header that it is in."""

    def __init__(self, text, comment, part):
        self.text, self.comment, self.part = text, comment, part
        function = re.match(r"(DPX_API|DPX_SIZED) ([^;(]*?)\b(dpx_\w+)\((.*)\)( DPX_CHECKED)?$", " ".join(text.split()))
        self.function = function.group(3) if function else None
        if function:
            self.prototype = f"{function.group(2).strip()} {function.group(3)}({function.group(4)});".replace("* ", "*")
            self.fails = function.group(2).strip() == "dpx_status" and " DPX_CHECKED" in text
        self.types = set(re.findall(r"\bdpx_\w+", text)) - {self.function}

    @property
    def type_name(self):
        named = re.search(r"\}\s*(dpx_\w+)$", self.text) or re.search(r"typedef.*?\b(dpx_\w+)(?:\(|$)", self.text, re.S)
        return named.group(1) if self.text.startswith("typedef") and named else None


class Part:
    """A part of the header: its title, and what it says of the errors and threads of all its functions."""

    def __init__(self, title):
        self.title, self.errors, self.threads = title, "", ""

    def take(self, text):
        """Takes the rules out of the comment below the title; whether they are there."""
        found = re.match(r"(?:(?P<of>.*?)\s)?Errors: (?P<errors>.*?)\sThreads: (?P<threads>.*)$", text, re.S)
        if found:
            self.errors, self.threads = found.group("errors"), found.group("threads")
        return bool(found)


def plain(comment):
    """The text of a comment; its examples, indented by four, stay as they are."""
    lines = comment[2:-2].strip().split("\n")
    return "\n".join(re.sub(r"^ ?\* ?", "", line.rstrip()) if k else line.strip() for k, line in enumerate(lines))


def skip(text):
    """The header without what surrounds its declarations."""
    begin = text.index('extern "C" {') if 'extern "C" {' in text else text.index("*/") + 2
    text = text[begin:].replace('extern "C" {', "", 1)
    return re.sub(r"#ifdef __cplusplus\n\}\n#endif", "", text)


def declarations(name):
    """The declarations of a header, in order."""
    found, part, words, above, direct = [], Part(name), [], "", False
    used = inherited = False    # has an earlier declaration, or one before this, had the comment above?
    for m in PIECE.finditer(skip((INCLUDE / name).read_text())):
        kind, text = m.lastgroup, m.group()
        if kind == "comment" and TITLE.fullmatch(text):
            part, above = Part(TITLE.fullmatch(text).group(1)), ""
        elif kind == "comment" and words:
            words.append(text)
        elif kind == "comment" and direct:      # behind a declaration, on its line
            found[-1].comment = plain(text) if inherited else f"{found[-1].comment}\n{plain(text)}".strip()
        elif kind == "comment":
            above, used = "" if part.take(plain(text)) else plain(text), False
        elif kind == "blank":
            above = above if words else ""
        elif kind == "line":
            above, words = "", []
        elif kind == "end" and words:
            found.append(Declaration("".join(words).strip(), above, part))
            words, inherited, used = [], used, True
        elif kind in ("word", "body", "space") and (words or kind != "space"):
            words.append(text)
        direct = kind == "end" or (direct and kind == "space" and "\n" not in text)
    return found


def all_declarations():
    return [d for name in ("dpexec.h", "dpexec_world.h", "dpexec_operators.h", "dpexec_data.h") for d in declarations(name)]


def rules(name):
    """Errors and Threads of the whole header, from its first comment."""
    text = plain((INCLUDE / name).read_text().split("*/")[0] + "*/")
    return {head: " ".join(body.split()) for head, body in re.findall(r"^(\w+): (.*?)(?=^\w+: |\n\n|\Z)", text, re.S | re.M)}


def check():
    for d in all_declarations():
        if not d.function:
            continue
        if len(d.comment.split()) < 5:
            yield f"{d.function} has no comment" + f" but '{d.comment}'" * bool(d.comment)
        if not d.part.errors or not d.part.threads:
            yield f"{d.function}: its part of the header, '{d.part.title}', says no errors or threads"
    for word in ("Errors", "Threads"):
        if not rules("dpexec.h").get(word):
            yield f"dpexec.h begins without '{word}: '"


# ---- man pages ----

def roff(text):
    """A comment as roff: lines that begin with four spaces are an example."""
    out, example = [], False
    for line in text.split("\n"):
        if line.startswith("    ") != example and line.strip():
            example = not example
            out.append(".nf" if example else ".fi")
        line = line.replace("\\", "\\e").replace("-", "\\-")
        out.append(("\\&" if line[:1] in ("'", ".") else "") + line if line.strip() else ".PP")
    return "\n".join(out + [".fi"] * example)


def code(text):
    return ".nf\n" + "\n".join("\\&" + line.replace("\\", "\\e") for line in text.split("\n")) + "\n.fi"


def definitions_of(d, types):
    """Definitions of the structs, enums and callbacks in a prototype; dpexec(3) has that of dpx_status."""
    return [types[n].text for n in sorted(d.types - {"dpx_status"})
            if n in types and ("{" in types[n].text or n.endswith("_fn"))]


def errors_of(d):
    return d.part.errors if d.fails else rules("dpexec.h")["Others"]


def sentence(text):
    return text[:1].upper() + text[1:]


def page(d, types, head):
    text = [head.format(name=d.function.upper()), ".SH NAME", f"{d.function} \\- dpexec: {d.part.title}", ".SH SYNOPSIS",
            ".B #include <dpexec.h>", ".PP", code(d.prototype)]
    text += [".SH DESCRIPTION", roff(d.comment), ".SH ERRORS", roff(sentence(errors_of(d))),
             ".SH THREADS", roff(sentence(d.part.threads))]
    if definitions := definitions_of(d, types):
        text += [".SH TYPES", code("\n\n".join(s + ";" for s in definitions))]
    text += [".SH SEE ALSO", "dpexec(3)"]
    return "\n".join(text) + "\n"


def man(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    header = (INCLUDE / "dpexec.h").read_text()
    version = ".".join(re.search(rf"#define DPX_VERSION_{p} (\d+)", header).group(1) for p in ("MAJOR", "MINOR", "PATCH"))
    head = f'.TH {{name}} 3 "" "dpexec {version}" "C library of dpexec"'
    found = all_declarations()
    types = {d.type_name: d for d in found if d.type_name}
    for d in found:
        if d.function:
            (folder / f"{d.function}.3").write_text(page(d, types, head))
    for name in re.findall(r"return (dpx_\w+)_sized\(", (INCLUDE / "dpexec_sized.h").read_text()):
        (folder / f"{name}_sized.3").write_text(f".so man3/{name}.3\n")
    text = [head.format(name="DPEXEC"), ".SH NAME", "dpexec \\- the C library of dpexec", ".SH SYNOPSIS",
            ".B #include <dpexec.h>", ".SH DESCRIPTION", roff(plain(header.split("*/")[0] + "*/")),
            ".SH STATUS", code(types["dpx_status"].text + ";"), ".SH FUNCTIONS"]
    for title in dict.fromkeys(d.part.title for d in found if d.function):
        names = ", ".join(f"{d.function}(3)" for d in found if d.function and d.part.title == title)
        text += [f".SS {title}", names]
    (folder / "dpexec.3").write_text("\n".join(text) + "\n")


# ---- Doxygen ----

def escaped(text):
    return re.sub(r"[@\\<>#&]", r"\\\g<0>", text)


def member_comment(m):
    """A comment in a struct: on a line of its own it is about the next member, else about the one before it."""
    return f"{m.group(1)}/**{escaped(m.group(2))}*/" if m.group(1) else f"/**<{escaped(m.group(2))}*/"


def doxygen(path):
    """The header with comments that Doxygen reads: /** above a declaration, /**< behind a member."""
    name = pathlib.Path(path).name
    whole = (INCLUDE / name).read_text()
    text = [f"/** @file {name}\n{escaped(plain(whole.split('*/')[0] + '*/'))}\n*/"]
    found, title = declarations(name), None
    for k, d in enumerate(found):
        if d.part.title != title:
            text += ["/** @} */"] * (title is not None)
            title = d.part.title
            text.append(f"/** @name {title}\n{escaped(d.part.errors)}\n\n{escaped(d.part.threads)}\n*/\n/** @{{ */")
        comment = escaped(d.comment)
        if d.function:
            comment += f"\n\n@par Errors\n{escaped(sentence(errors_of(d)))}\n\n@par Threads\n{escaped(sentence(d.part.threads))}"
        body = re.sub(r"(\n[ \t]*)?/\*(.*?)\*/", member_comment, d.text, flags=re.S)
        body = re.sub(r"DPX_(API|SIZED) | DPX_CHECKED", "", body)
        text += [f"/** {comment or d.type_name or ''}\n*/", f"{body};"]
    return "\n".join([*text, "/** @} */"]) + "\n"


def main(arguments):
    if arguments[:1] == ["--man"] and len(arguments) == 2:
        man(arguments[1])
    elif arguments[:1] == ["--filter"] and len(arguments) == 2:
        print(doxygen(arguments[1]), end="")
    elif arguments == ["--check"]:
        found = list(check())
        print("\n".join(found), end="\n" if found else "")
        return bool(found)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
