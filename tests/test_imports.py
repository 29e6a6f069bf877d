"""The import graph of the package, read from its source: who may import whom, and that there are no cycles."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (SOURCE / "dpmsnc").rglob("*.py")
}


class Imports(ast.NodeVisitor):
    """The modules of this package that a source imports: those at load time, and those within functions."""

    def __init__(self, source, package, modules=MODULES):
        self.modules, self.package = modules, package
        self.at_load, self.later, self.depth = set(), set(), 0
        self.visit(ast.parse(source))

    def visit_Import(self, node):
        self.add(*(alias.name for alias in node.names))

    def visit_ImportFrom(self, node):
        parents = self.package.split(".")[: len(self.package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*parents, *filter(None, [node.module])])
        names = [f"{base}.{alias.name}" for alias in node.names]
        self.add(*(name if name in self.modules else base for name in names))

    def visit_If(self, node):
        for statement in node.orelse if "TYPE_CHECKING" in ast.unparse(node.test) else [*node.body, *node.orelse]:
            self.visit(statement)

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def add(self, *names):
        (self.later if self.depth else self.at_load).update(name for name in names if name in self.modules)


def imports(name):
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return Imports(path.read_text(encoding="utf-8"), package)


GRAPH = {name: imports(name) for name in MODULES}


def within(name, *packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def importers(target, *allowed):
    """Modules outside `allowed` that import a package, at load time or later."""
    return {
        (name, other)
        for name, found in GRAPH.items()
        for other in found.at_load | found.later
        if within(other, target) and not within(name, *allowed)
    }


def test_the_library_never_imports_the_evidence():
    assert importers("dpmsnc.evidence", "dpmsnc.cli", "dpmsnc.evidence") == set()


def test_only_the_command_line_imports_the_command_line():
    assert importers("dpmsnc.cli", "dpmsnc.cli") == set()


def test_only_the_command_line_imports_the_comparison():
    assert importers("dpmsnc.comparison", "dpmsnc.cli", "dpmsnc.comparison") == set()


def test_the_theory_stands_on_graphs_alone():
    found = {
        (name, other)
        for name, imported in GRAPH.items()
        for other in imported.at_load | imported.later
        if within(name, "dpmsnc.theory") and not within(other, "dpmsnc.theory", "dpmsnc.graph", "dpmsnc.errors")
    }
    assert found == set() and within("dpmsnc.theory.wl", *GRAPH)
    assert importers("dpmsnc.theory", "dpmsnc.theory", "dpmsnc.cli", "dpmsnc.evidence") == set()


def test_reasoning_tasks_know_nothing_of_models():
    found = GRAPH["dpmsnc.reasoning.tasks"]
    assert found.at_load | found.later <= {"dpmsnc.config", "dpmsnc.registry"}


def cycle(graph):
    """A cycle of a graph as a list; none where it has an order."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_nothing_imports_in_circles_at_load_time():
    assert cycle({name: found.at_load - {name} for name, found in GRAPH.items()}) == []
    assert cycle({"a": {"b"}, "b": {"a"}}) != []


@pytest.mark.parametrize(
    "source, at_load, later",
    [
        ("import a.b", {"a.b"}, set()),
        ("from a import b, name", {"a.b", "a"}, set()),
        ("from a.b import name as other", {"a.b"}, set()),
        ("from . import b\nfrom .b import name", {"a.b"}, set()),
        ("def f():\n    import a", set(), {"a"}),
        ("class C:\n    from a import b\n    def f(self):\n        import a", {"a.b"}, {"a"}),
        ("try:\n    import a\nexcept ImportError:\n    pass", {"a"}, set()),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import a.b\nimport numpy", {"a.b"}, set()),
        ("if True:\n    import a\nelif other:\n    import a.b", {"a", "a.b"}, set()),
    ],
)
def test_imports_are_read_as_python_does(source, at_load, later):
    found = Imports(source, "a", {"a", "a.b"})
    assert (found.at_load, found.later) == (at_load, later)


def test_the_graph_has_the_modules_and_what_they_import():
    assert "dpmsnc.errors" in GRAPH["dpmsnc.registry"].at_load and len(GRAPH) > 50
    assert "dpmsnc.evidence.run.runner" in GRAPH["dpmsnc.cli.reproduce"].later
