#!/usr/bin/env python3
"""Makes the manual from the comments of public headers (section 3), and inserts the version into other pages.

  make_pages.py TAR lanyard.h lanyard_device.h lanyard_names.h PAGE...

A comment right before declarations of functions is a page, named after the first function. Its
first sentence is the title. A line "Word:" begins a section, "  NAME: text" is an item, and lines
indented by four are code. Sections of the first comment of a header apply to all its pages. A
comment "---- Title ----" is a note on the pages that follow. Pages use MPIX_ names, as programs do,
from the macros in the headers. The linked names are aliases of the same pages.
"""
import io
import re
import sys
import tarfile
import textwrap


def sections(comment):
    """The lines of a comment by section; lines before the first heading belong to ''."""
    found = {"": []}
    lines = found[""]
    for line in comment.rstrip().split("\n"):
        line = re.sub(r"^ (\* ?)?", "", line).rstrip()
        if re.fullmatch(r"[A-Z][a-z]+:", line):
            lines = found[line[:-1]] = []
        else:
            lines.append(line)
    return found


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha")
    return "\\&" + text if text[:1] in (".", "'") else text


class Page:
    def __init__(self, header, note, parts, block):
        self.header, self.note, self.parts, self.block = header, note, parts, block
        self.functions = re.findall(r"^\w+ (MPIX_\w+)\(", block, re.M)
        self.names = self.functions + re.findall(r"^#define (MPIX_ERR_\w+)", block, re.M)
        title = re.match(r"(.*?)\.(\s|$)", " ".join(parts[""]))[1]
        self.title = title[0].lower() + title[1:]


class Manual:
    def __init__(self, headers):
        self.pages = []
        texts = {"lanyard/" + path.rsplit("/", 1)[1]: open(path, encoding="utf-8").read() for path in headers}
        self.linked = dict(re.findall(r"^#define (MPIX_\w+) (\w+)", "".join(texts.values()), re.M))
        written = {linked: name for name, linked in self.linked.items()}
        for header, text in texts.items():
            text = re.sub(r"\b[A-Z]\w+", lambda name: written.get(name[0], name[0]), text)
            unwritten = re.search(r"^(\w+ )+Lanyard_\w+\(", text, re.M)
            assert not unwritten, f"{header}: no macro has the name MPIX_ for {unwritten[0]}"
            self.read(header, text)
        self.page_of = {function: page for page in self.pages for function in page.functions}
        number = dict(re.findall(r"#define LANYARD_VERSION_(\w+) (\d+)", open(headers[0], encoding="utf-8").read()))
        self.version = "Lanyard {MAJOR}.{MINOR}.{PATCH}".format(**number)

    def read(self, header, text):
        general, note = None, []
        for comment in re.finditer(r"^/\*(.*?)\*/\n", text, re.S | re.M):
            block = text[comment.end():].split("\n\n")[0]
            if block.startswith("LANYARD_DEVICE_FUNCTION "):  # with a body
                block = block.split(" {")[0].split(" ", 1)[1] + ";"
            if general is None:
                general = {name: lines for name, lines in sections(comment[1]).items() if name}
            elif comment[1].startswith(" ----"):
                note = sections(comment[1].partition("\n")[2])[""]
            elif re.search(r"^\w+ MPIX_\w+\(", block, re.M):
                own = sections(comment[1])
                self.pages.append(Page(header, note, own if "Returns" in own else {**general, **own}, block))

    def marked(self, text, page):
        """Prints names in bold, and names of other pages with their section."""
        def name(match):
            other = self.page_of.get(match[0], page)
            return f"\\fB{match[0]}\\fP" + "(3)" * (other is not page)
        return re.sub(r"\b(MPIX?|LANYARD)_\w+\*?", name, escaped(text))

    def body(self, lines, page):
        """The troff source of paragraphs, items and code."""
        out, last = [], ""
        for line in lines:
            item = re.match(r"  (\S[^:]*): (.*)", line)
            kind = "item" if item else "text" if line else ""
            if line.startswith("    ") and last in ("", "code"):
                kind = "code"
            if last == "code" and kind != "code":
                out.append(".EE\n.RE")
            if item:
                out.append(".IP \\(bu 2" if item[1] == "-" else ".TP\n" + self.marked(item[1], page))
                out.append(self.marked(item[2], page))
            elif kind == "code":
                out += [".PP\n.RS 4\n.EX"] * (last != "code") + [escaped(line[4:])]
            elif line:
                out += [".PP"] * (not last and bool(out)) + [self.marked(line.strip(), page)]
            last = kind
        return out

    def troff(self, page):
        out = [f'.TH {page.functions[0].upper()} 3 "" "{self.version}" "Lanyard Manual"', ".nh", ".SH NAME",
               ", ".join(page.functions) + " \\- " + escaped(page.title),
               ".SH SYNOPSIS", ".nf", f"\\fB#include <{page.header}>\\fP", ".PP"]
        for line in re.sub(r",\n {5,}", ", ", page.block).split("\n"):
            line = re.sub(r"(?<!,) ", "\0", line)  # break only after commas
            out += [f"\\fB{escaped(part)}\\fP".replace("\0", " ") for part in textwrap.wrap(
                line, 76, subsequent_indent="\0" * 4, break_long_words=False, break_on_hyphens=False)]
        out.append(".fi")
        parts = dict(page.parts)
        parts["Errors"] = parts.get("Errors", []) + [""] + parts.get("Always", [])
        parts["Notes"] = page.note + [""] + parts.get("Threads", []) + [""] + parts.get("Names", [])
        for heading, name in (("DESCRIPTION", ""), ("RETURN VALUE", "Returns"), ("ERRORS", "Errors"), ("NOTES", "Notes")):
            if any(parts.get(name, [])):
                out += [".SH " + heading] + self.body(parts[name], page)
        said = " ".join(sum(page.parts.values(), page.note))
        also = {self.page_of[name].functions[0] for name in re.findall(r"MPIX_\w+", said) if name in self.page_of}
        also |= {other.functions[0] for other in self.pages if other.note is page.note}
        also.discard(page.functions[0])
        out += [".SH SEE ALSO"] + [f"\\fB{name}\\fP(3)," for name in sorted(also)] + ["\\fBlanyard\\fP(7)"]
        return "\n".join(out) + "\n"


def main(target, *paths):
    manual = Manual([path for path in paths if path.endswith(".h")])
    files = {}
    for page in manual.pages:
        names = page.names + [manual.linked[name] for name in page.names]
        files.update({f"man3/{name}.3": f".so man3/{page.functions[0]}.3\n" for name in names})
        files[f"man3/{page.functions[0]}.3"] = manual.troff(page)
    for path in paths:
        if not path.endswith(".h"):
            text = open(path, encoding="utf-8").read()
            files[f"man{path[-1]}/" + path.rsplit("/", 1)[1]] = text.replace("@VERSION@", manual.version)
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in sorted(files.items()):
            entry, data = tarfile.TarInfo(name), text.encode()
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


main(*sys.argv[1:])
