"""A page in a browser: opened, checked for faults, and read back."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Playwright

SYSTEM_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LIMIT_MS = 60_000

TABLES = """() => [...document.querySelectorAll("table")].map(table => ({
  caption: table.caption ? table.caption.textContent : "",
  header: [...table.tHead.rows[0].cells].map(cell => cell.textContent),
  rows: [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => ({
    text: cell.textContent,
    value: cell.dataset.v === undefined ? null : Number(cell.dataset.v),
  }))),
}))"""

PLOTS = """() => [...document.querySelectorAll("figure")].map(figure => {
  const shown = [...figure.querySelectorAll("svg")].filter(svg => svg.getBoundingClientRect().width > 0);
  return {
    title: figure.querySelector("figcaption").textContent,
    shown: shown.map(svg => svg.classList[0]),
    points: shown.length ? JSON.parse(shown[0].dataset.points) : [],
  };
})"""

# Elements that exceed the window or their drawing.
OVERFLOWS = """() => {
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth + 1)
    found.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);
  for (const svg of document.querySelectorAll("svg")) {
    const all = svg.getBoundingClientRect();
    if (all.width === 0) continue;
    for (const text of svg.querySelectorAll("text")) {
      const at = text.getBoundingClientRect();
      if (at.left < all.left - 4 || at.right > all.right + 4 || at.top < all.top - 4 || at.bottom > all.bottom + 4)
        found.push(`"${text.textContent}" sticks out of "${svg.getAttribute("aria-label")}"`);
    }
  }
  return found;
}"""

# Luminance of a computed colour, 0 to 255.
LIGHT = """() => ["backgroundColor", "color"].map(name => {
  const [r, g, b] = getComputedStyle(document.body)[name].match(/[\\d.]+/g).map(Number);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
})"""

# Position of a point of a plot's drawing in the window.
PLACE = """([index, x, y]) => {
  const svg = [...document.querySelectorAll("figure")][index].querySelectorAll("svg");
  const shown = [...svg].find(one => one.getBoundingClientRect().width > 0);
  shown.scrollIntoView({ block: "center" });
  const at = new DOMPoint(x, y).matrixTransform(shown.getScreenCTM());
  return [at.x, at.y];
}"""


def launch(playwright: Playwright) -> Browser:
    """The system's browser if there is one, else the one that Playwright installed."""
    paths = [path for name in SYSTEM_BROWSERS if (path := shutil.which(name))]
    return playwright.chromium.launch(executable_path=paths[0] if paths else None)


@dataclass
class Cell:
    text: str
    value: float | None


@dataclass
class Table:
    caption: str
    header: list[str]
    rows: list[list[Cell]]

    def column(self, name: str) -> list[Cell]:
        return [row[self.header.index(name)] for row in self.rows]


@dataclass
class Plot:
    title: str
    points: list[tuple[float, float, str]]

    def texts(self) -> list[str]:
        return [text for _, _, text in self.points]


class View:
    """A page in a window. `close` returns the faults found."""

    def __init__(self, browser: Browser, path: Path, scheme: str, width: int):
        self.scheme = scheme
        self.name = f"{path.name}, {scheme}, {width} wide"
        self.faults: list[str] = []
        self.context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        self.page = self.context.new_page()
        address = path.as_uri()
        self.page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: request.url == address or self.faults.append(f"asks for {request.url}"))
        self.page.goto(address, wait_until="load", timeout=LIMIT_MS)
        timing = "() => performance.getEntriesByType('navigation')[0].loadEventEnd"
        self.load_ms: float = self.page.evaluate(timing)

    def look(self) -> None:
        """Checks that apply to every page in every window."""
        self.faults += self.page.evaluate(OVERFLOWS)
        paper, text = self.page.evaluate(LIGHT)
        if (paper > text) != (self.scheme == "light") or abs(paper - text) < 120:
            self.faults.append(f"paper has a luminance of {paper:.0f}, text of {text:.0f}")
        for plot in self.page.evaluate(PLOTS):
            if len(plot["shown"]) != 1:
                self.faults.append(f"{plot['title']!r} is drawn {len(plot['shown'])} times")

    def tables(self) -> list[Table]:
        found = self.page.evaluate(TABLES)
        return [Table(t["caption"], t["header"], [[Cell(**c) for c in row] for row in t["rows"]]) for t in found]

    def items(self) -> list[str]:
        """Texts of list items."""
        return self.page.locator("main li").all_text_contents()

    def plots(self) -> list[Plot]:
        return [Plot(p["title"], [(x, y, text) for x, y, text in p["points"]]) for p in self.page.evaluate(PLOTS)]

    def hover(self, index: int, point: tuple[float, float, str]) -> str:
        """Text shown with the pointer on a point of a plot."""
        self.page.mouse.move(*self.page.evaluate(PLACE, [index, point[0], point[1]]))
        tip = self.page.locator("#tip")
        return tip.text_content() if tip.is_visible() else ""

    def walk(self, index: int, key: str, times: int) -> str:
        """Text shown after a number of presses of a key on a plot."""
        svg = self.page.locator("figure").nth(index).locator("svg:visible")
        svg.focus()
        for _ in range(times):
            svg.press(key)
        return self.page.locator("#tip").text_content()

    def sort(self, table: int, column: int) -> list[Cell]:
        """Cells of a column after a click on its name."""
        self.page.locator("table").nth(table).locator("th button").nth(column).click()
        return [row[column] for row in self.tables()[table].rows]

    def close(self) -> list[str]:
        self.context.close()
        return [f"{self.name}: {fault}" for fault in self.faults]
