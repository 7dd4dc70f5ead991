"""What the HTML pages share: one self-contained file each, light and dark, printable, readable without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from epic_testbed.conformance.results import Status

WORDS = {"pass": "pass", "fail": "FAIL", "na": "n/a"}
# Part of a clause id: the section of the specification that it is in.
PARTS = {
    "W": "Wire format",
    "A": "Abstract machine",
    "E": "Engines",
    "H": "Hosts",
    "D": "Disagreement",
    "N": "Numerics",
    "M1": "Mode I: message termination",
    "M2": "Mode II: packet termination",
    "M3": "Mode III: translation",
    "F": "Timers, faults, deadlines",
}
MODES = {1: "I, message termination", 2: "II, packet termination", 3: "III, translation"}

_CSS = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2024; --dim: #5c656e; --line: #d5dae0; --soft: #f4f6f8;
  --pass: #17713a; --passbg: #dff3e5; --fail: #b3201b; --failbg: #fbe2e0; --na: #5c656e; --nabg: #e8ebee;
  --link: #0a58a8; }
@media (prefers-color-scheme: dark) { :root { --bg: #15181b; --fg: #e3e6e9; --dim: #9aa3ab; --line: #363c42;
  --soft: #1e2327; --pass: #79d697; --passbg: #16361f; --fail: #ff9b94; --failbg: #471a18; --na: #a4adb5;
  --nabg: #2b3136; --link: #7ab8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; } h4 { font-size: .85rem; margin: .8rem 0 .2rem; color: var(--dim); }
a { color: var(--link); } p { margin: .4rem 0; } .dim { color: var(--dim); }
code, pre, .mono { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .85em; }
pre { margin: 0; padding: .5rem .7rem; background: var(--soft); border: 1px solid var(--line); border-radius: 4px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top;
  padding: .3rem .5rem; border-bottom: 1px solid var(--line); }
th { font-size: .8rem; color: var(--dim); font-weight: 600; }
thead th { position: sticky; top: 0; background: var(--bg); }
tr.part th { padding-top: 1rem; color: var(--fg); font-size: .95rem; }
th.requirement { width: 48%; } .note { padding: .3rem .8rem; background: var(--nabg); border-radius: 5px; }
td.id, td.level, td.state { white-space: nowrap; }
.badge { display: inline-block; min-width: 3rem; padding: 0 .5rem; border-radius: 3px; text-align: center;
  font-weight: 600; font-size: .8rem; }
.pass { color: var(--pass); background: var(--passbg); } .fail { color: var(--fail); background: var(--failbg); }
.na { color: var(--na); background: var(--nabg); }
.verdict { font-size: 1.1rem; font-weight: 600; padding: .5rem .8rem; border-radius: 5px; margin: .6rem 0; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .8rem 0; }
.facts dt { color: var(--dim); } .facts dd { margin: 0; overflow-wrap: anywhere; }
.counts { width: auto; margin: .6rem 0; } .counts td, .counts th { padding: .2rem .8rem; text-align: right; }
.list td { white-space: nowrap; }
.counts th:first-child { text-align: left; }
.tools { display: none; gap: .8rem; align-items: center; margin: .6rem 0; flex-wrap: wrap; }
.tools input[type=search] { padding: .25rem .5rem; min-width: 18rem; background: var(--bg); color: var(--fg);
  border: 1px solid var(--line); border-radius: 4px; }
.scripted .tools { display: flex; } .hidden { display: none; }
details.case { border: 1px solid var(--line); border-radius: 5px; margin: .35rem 0; }
details.case > summary { padding: .35rem .6rem; cursor: pointer; } details.case > div { padding: .2rem .9rem .8rem; }
details.case:target { outline: 2px solid var(--link); }
details.more { margin: .5rem 0; } details.more > summary { cursor: pointer; color: var(--link); }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: .8rem; }
@media (max-width: 50rem) { .sides { grid-template-columns: 1fr; } }
.log td { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .8rem;
  padding: .1rem .5rem; }
.log td.n { text-align: right; color: var(--dim); white-space: nowrap; }
.log tr.expect td { color: var(--dim); } .log tr.last td { background: var(--failbg); }
.log summary { cursor: pointer; } .log details table td { border: 0; }
.cases a { display: inline-block; margin-right: .7rem; } .cases a.failed { color: var(--fail); font-weight: 600; }
td.cell { text-align: center; } th.wide { min-width: 20rem; }
.scroll { overflow-x: auto; } .scroll thead th { position: static; }
.legend { font-size: .85rem; color: var(--dim); }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } .tools { display: none !important; }
  thead th { position: static; } .sides { grid-template-columns: 1fr 1fr; }
  details.case { break-inside: auto; } tr, summary { break-inside: avoid; }
  a { color: inherit; text-decoration: none; } .badge, .verdict { print-color-adjust: exact; } }
"""

# Filters, links into closed cases, and failed cases open on paper. The page has everything without them.
_SCRIPT = """
document.documentElement.classList.add("scripted");
for (const tools of document.querySelectorAll(".tools")) {
  const rows = document.querySelectorAll(tools.dataset.rows);
  const apply = () => {
    const words = tools.querySelector("input[type=search]").value.toLowerCase().split(/\\s+/).filter(Boolean);
    const on = new Set([...tools.querySelectorAll("input[type=checkbox]:checked")].map(b => b.value));
    for (const row of rows) {
      const text = row.dataset.find || row.textContent.toLowerCase();
      const states = row.dataset.status.split(" ");
      row.classList.toggle("hidden", !states.some(s => on.has(s)) || !words.every(w => text.includes(w)));
    }
    for (const part of document.querySelectorAll(tools.dataset.parts || "none")) {
      const own = document.querySelectorAll(`${tools.dataset.rows}[data-part="${part.dataset.part}"]`);
      part.classList.toggle("hidden", [...own].every(r => r.classList.contains("hidden")));
    }
  };
  tools.addEventListener("input", apply);
}
const reveal = () => {
  const wanted = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (wanted) {
    wanted.classList.remove("hidden");
    wanted.closest(".group")?.classList.remove("hidden");
    if (wanted.tagName === "DETAILS") wanted.open = true;
    wanted.scrollIntoView();
  }
};
addEventListener("hashchange", reveal);
reveal();
addEventListener("beforeprint", () => {
  for (const c of document.querySelectorAll("details.case[data-status=fail]")) c.open = true;
});
"""


def page(title: str, body: Iterable[str]) -> str:
    """A whole document. `title` is text, `body` is markup."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_CSS}</style></head><body>",
            *body,
            f"<script>{_SCRIPT}</script></body></html>\n",
        ]
    )


def badge(status: str) -> str:
    """A status as a coloured word."""
    return f'<span class="badge {status}">{WORDS[status]}</span>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names with values; the values are markup."""
    inside = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in rows)
    return f'<dl class="facts">{inside}</dl>'


def tools(rows: str, parts: str, what: str) -> str:
    """The filter of the elements `rows` (a selector); headings `parts` go with the last of their rows."""
    boxes = "".join(
        f'<label><input type="checkbox" value="{s.value}" checked> {WORDS[s.value]}</label>' for s in Status
    )
    search = f'<input type="search" placeholder="filter {escape(what)}" aria-label="filter {escape(what)}">'
    return f'<div class="tools" data-rows="{escape(rows)}" data-parts="{escape(parts)}">{search}{boxes}</div>'


def when(started: str) -> str:
    """A time of a report (ISO 8601, UTC) as people write it."""
    return escape(started.replace("T", " ").replace("+00:00", " UTC"))


def part_of(clause: str) -> str:
    """The part of a clause id."""
    return clause.split("-")[1]


def inline(text: str) -> str:
    """Text with **bold** and `code` as markup."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", marked)


def prose(markdown: str) -> str:
    """The few forms that test plans use: headings, paragraphs, lists."""
    blocks = []
    for block in re.split(r"\n\s*\n", markdown.strip()):
        lines = block.splitlines()
        if lines[0].startswith("#"):
            blocks.append(f"<h4>{inline(lines[0].lstrip('# '))}</h4>")
            lines = lines[1:]
        if not lines:
            continue
        if lines[0].lstrip().startswith("- "):
            items = re.split(r"\n\s*- ", "\n" + "\n".join(lines).lstrip())[1:]
            blocks.append(
                "<ul>" + "".join(f"<li>{inline(' '.join(i.split()))}</li>" for i in items) + "</ul>"
            )
        else:
            blocks.append(f"<p>{inline(' '.join(line.strip() for line in lines))}</p>")
    return "".join(blocks)
