"""Scaffolds: how an agent works on a task. They import records and prompts; models, sandboxes and graders reach them as
an Environment (interface).

`single` turns tasks into questions and replies into records. The others are subclasses of Scaffold, found by name here.
One of the user's own is `module:Name` or `path/to/file.py:Name` (components, registered).
"""

SCAFFOLDS = {
    "single": "single:Single",
    "improve": "improve:Improve",
    "react": "react:React",
    "codeact": "codeact:Codeact",
    "memory": "memory:Memory",
    "idea": "idea:Idea",
    "search": "search:SearchScaffold",
}
IN_TURNS = tuple(name for name in SCAFFOLDS if name != "single")
