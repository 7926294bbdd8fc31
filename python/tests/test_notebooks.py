"""Runs every notebook from its text form, a cell at a time, in a kernel of its own."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def notebook_of(text: str) -> nbformat.NotebookNode:
    """Makes a notebook of a text whose cells begin with ``# %%``."""
    notebook = nbformat.v4.new_notebook()
    for part in text.split("# %%")[1:]:
        head, _, body = part.partition("\n")
        if "[markdown]" in head:
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
            notebook.cells.append(nbformat.v4.new_markdown_cell("\n".join(lines)))
        else:
            notebook.cells.append(nbformat.v4.new_code_cell(body.strip()))
    return notebook


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.py")), ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    notebook = notebook_of(path.read_text())
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells and any(cell.outputs for cell in cells)
