from pathlib import Path


def pytest_addoption(parser) -> None:
    parser.addoption("--screenshots", type=Path, help="a folder for a picture of every view")
