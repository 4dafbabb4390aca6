#!/usr/bin/env python3
"""The recipe for Spack is a package that Spack can read, of this version, whose calls of tools/install are ones that it
takes. Spack itself is not asked: nobody has it here.

  recipe_test.py PACKAGE.py LANYARD.h TOOLS_INSTALL
"""

import ast
import re
import subprocess
import sys


def name_of(call):
    return call.func.id if isinstance(call.func, ast.Name) else ""


def strings(call):
    return [argument.value for argument in call.args if isinstance(argument, ast.Constant)]


def check(recipe, header, install):
    with open(recipe, encoding="utf-8") as source:
        tree = ast.parse(source.read(), recipe)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert [c.name for c in classes] == ["Lanyard"], "one class, named as Spack makes it of the package's name"
    package = classes[0]
    assert ast.get_docstring(package), "Spack shows what a package is"
    directives = [node.value for node in package.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]

    with open(header, encoding="utf-8") as text:
        numbers = dict(re.findall(r"#define LANYARD_VERSION_(\w+) (\d+)", text.read()))
    version = ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))
    versions = [strings(call)[0] for call in directives if name_of(call) == "version"]
    assert versions == [version], f"the recipe is of {versions}, the header of {version}"

    needed = {strings(call)[0].split("@")[0] for call in directives if name_of(call) == "depends_on"}
    assert {"bazel", "mpich", "libfabric"} <= needed, f"it depends on {needed}"
    homes = {strings(call)[0] for call in ast.walk(package) if isinstance(call, ast.Call) and strings(call)}
    assert {"MPICH_HOME", "LIBFABRIC_HOME", "CC"} <= homes, "what it depends on must be found"

    methods = {node.name: node for node in package.body if isinstance(node, ast.FunctionDef)}
    assert [a.arg for a in methods["install"].args.args] == ["self", "spec", "prefix"], "as Spack calls it"
    calls = [node for node in ast.walk(methods["install"]) if isinstance(node, ast.Call)
             and isinstance(node.func, ast.Call) and strings(node.func) == ["tools/install"]]
    assert len(calls) == 1, "it calls tools/install once"
    options = [word for word in strings(calls[0]) if word.startswith("--")]
    assert "--prefix" in options and "--no-setup" in options, f"tools/install {options}"
    usage = subprocess.run([install, "--help"], check=True, capture_output=True, text=True).stdout
    for option in options:
        assert option in usage, f"tools/install has no {option}"


check(*sys.argv[1:])
print("everything holds")
