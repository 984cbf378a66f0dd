"""The live page: its parts, and what changes them. Text of a store only ever becomes text: Dash escapes it, and the views do for
Plotly."""

import io
import time
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import dash_ag_grid as grid
import plotly.graph_objects as go
from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate
from flask import has_request_context, request

from recollect.serve.guard import guard
from recollect.serve.live import Live
from recollect.serve.parts import failure_list, progress_summary, progress_table, run_columns, shown_columns
from recollect.spec import SpecError
from recollect.store.frames import write_csv
from recollect.views import VIEWS
from recollect.views.base import Choice, Frames
from recollect.views.filter import matching
from recollect.views.frame import Frame
from recollect.views.style import set_theme

EVERY = 1500
"""Milliseconds between two looks at the stores."""
BLOCK = 100
"""Rows of the table of runs that are sent at a time."""
SCRIPTS = "/_dash-component-suites/plotly/package_data/plotly.min.js"
"""The largest script, which Dash asks for last: a browser that knows of it at once has it in time."""
_THEME = """
  const theme = localStorage.getItem("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  Object.assign(document.documentElement.dataset, { theme, agThemeMode: theme });
  document.cookie = `theme=${theme}${innerWidth < 760 ? "-narrow" : ""}; SameSite=Strict; path=/`;
"""
"""The theme that was chosen, or else the system's, and whether the page is narrow: for the styles, and as a cookie, so that the
first chart has it."""
_SWITCH = """() => {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  %s
  return document.cookie.match(/theme=([a-z-]+)/)[1];
}"""
"""The other theme, after a click."""
_LINK = '(link) => { history.replaceState(null, "", link ? `?${link}` : location.pathname); }'
"""The address keeps what is chosen."""
_ROWS = '([again]) => { dash_ag_grid.getApiAsync("runs").then((grid) => grid[again]()); }'
"""The table asks for its rows again, once the chart has been drawn; where only the store has changed, it stays in its place."""


@dataclass(frozen=True)
class Chosen:
    """What a person has chosen to see."""

    view: str
    studies: tuple[str, ...]
    filter: str
    choices: dict[str, str]
    """Of the view, by name; those that it does not offer are left out."""
    offered: tuple[Choice, ...]
    frames: Frames

    @property
    def link(self) -> str:
        """It all as the query of an address: what differs from the view's defaults."""
        defaults = {choice.name: choice.default for choice in self.offered}
        differing = {name: value for name, value in self.choices.items() if value != defaults[name]}
        rest = {"filter": self.filter} if self.filter else {}
        return urlencode({"view": self.view, "study": self.studies, **differing, **rest}, doseq=True)


def choose(live: Live, view: str, studies: list[str], text: str | None, asked: dict[str, str]) -> Chosen:
    """Returns the choices that the studies offer among those asked for, with the frames of the runs that the filter keeps."""
    needs, text = VIEWS.find(view).needs, (text or "").strip()
    frames, offered = live.frames(studies, needs), live.offered(view, studies)
    choices = {name: value for name, value in asked.items() if name in offered and value in offered[name].options}
    if "curves" in needs and choices.get("rate", "best") != "best":
        frames = live.frames(studies, needs, choices["rate"])
    frames = replace(frames, runs=filtered(frames.runs, text))
    return Chosen(view, tuple(studies), text, choices, tuple(offered.values()), frames)


def filtered(runs: Frame, text: str | None) -> Frame:
    """The runs that a filter keeps."""
    return runs.loc[matching(runs, text)] if text and len(runs) else runs


def make_app(live: Live, host: str, token: str = "") -> Dash:
    """The application over some stores."""
    app = Dash("recollect", title="recollect", update_title="", serve_locally=True, include_assets_files=False)
    guard(app.server, host, token)
    app.index_string = _index()
    app.layout = lambda: _layout(live, _from_address(live))
    _connect(app, live)
    return app


def warm(live: Live) -> None:
    """Read and draw what a page shows first: reading a large store takes a second, and so does Plotly's first figure."""
    _drawn(_from_address(live), "light")


def _index() -> str:
    styles = [
        resources.files("recollect.reporting").joinpath("page", "page.css"),
        resources.files("recollect.serve").joinpath("serve.css"),
    ]
    style = "\n".join(path.read_text(encoding="utf-8") for path in styles)
    return (
        f'<!doctype html><html lang="en"><head><link rel="preload" as="script" href="{SCRIPTS}"><script>{_THEME}</script>'
        '{%metas%}<title>{%title%}</title><link rel="icon" href="data:,">{%css%}'
        f"<style>{style}</style></head><body><a class='skip' href='#main'>Skip to the results</a>"
        "{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body></html>"
    )


def _from_address(live: Live) -> Chosen:
    """What the address of the page that asks for its parts has kept; by default the window of the newest study."""
    live.version()
    query = parse_qs(urlsplit(request.referrer or "").query) if has_request_context() else {}
    asked = {name: values[-1] for name, values in query.items()}
    known = live.studies()
    studies = [study for study in query.get("study", []) if study in known] or known[-1:]
    view = asked.get("view", "")
    return choose(live, view if view in _views() else "window", studies, asked.get("filter"), asked)


def _views() -> list[str]:
    """The views of the page: all but those of what a store does not hold."""
    return [name for name in VIEWS if "mixing" not in VIEWS.find(name).needs]


def _layout(live: Live, chosen: Chosen) -> html.Div:
    theme = request.cookies.get("theme", "light") if has_request_context() else "light"
    views = [{"label": VIEWS.find(name).title, "value": name} for name in _views()]
    label: dict[str, Any] = {"aria-label": "Switch between light and dark"}
    switch = html.Button("◐", id="switch", **label)
    stores = ", ".join(map(str, live.paths))
    head = html.Div([html.H1("recollect"), html.P(stores, className="made"), html.Div(id="summary")])
    studies = dcc.Dropdown(live.studies(), list(chosen.studies), id="studies", multi=True, placeholder="choose studies")
    words = dcc.Input(chosen.filter, "search", id="filter", placeholder="accuracy>0.9", debounce=0.1)
    config: Any = {"displaylogo": False, "toImageButtonOptions": {"format": "svg", "filename": "recollect"}}
    options = {"suppressFieldDotNotation": True, "enableCellTextSelection": True, "rowHeight": 30, "headerHeight": 34,
               "cacheBlockSize": BLOCK}  # fmt: skip
    table = grid.AgGrid(id="runs", columnDefs=run_columns(live.frames(chosen.studies).runs), rowModelType="infinite",
                        className="ag-theme-quartz-auto-dark", dashGridOptions=options)  # fmt: skip
    return html.Div([
        dcc.Interval("tick", EVERY), dcc.Store("version", data=live.version()), dcc.Store("theme", data=theme),
        dcc.Store("link", data=chosen.link), dcc.Store("again"), dcc.Download("download"),
        html.Header([head, switch]), html.Div(id="problems", role="alert"),
        html.Main(id="main", tabIndex=-1, children=[
            html.Section(id="explore", children=[
                dcc.RadioItems(views, chosen.view, id="views", inline=True),
                html.Div([html.Label(["studies", studies], className="wide"),
                          html.Div(_dropdowns(chosen), id="choices"),
                          html.Label(["filter", words], className="filter")], className="controls"),
                html.Div(dcc.Graph(id="chart", responsive=True, config=config), className="panel"), html.P(id="caption"),
            ]),
            html.Section([html.H2("Progress"), html.Div(id="progress", className="scroll", tabIndex=0)]),
            html.Section([html.H2("Failures"), html.Div(id="failures")], id="failed", hidden=True),
            html.Section([html.Div([html.H2("Runs"), html.Button("CSV", id="csv")], className="under"),
                          html.P(id="found", className="soft"), table]),
        ]),
    ])  # fmt: skip


def _connect(app: Dash, live: Live) -> None:
    """What changes what."""
    studies, words, version = Input("studies", "value"), Input("filter", "value"), Input("version", "data")
    app.clientside_callback(
        _SWITCH % _THEME, Output("theme", "data"), Input("switch", "n_clicks"), prevent_initial_call=True
    )
    app.clientside_callback(_LINK, Input("link", "data"), prevent_initial_call=True)
    app.clientside_callback(_ROWS, Input("again", "data"), prevent_initial_call=True)

    @app.callback(Output("version", "data"), Output("problems", "children"), Input("tick", "n_intervals"),
                  State("version", "data"), prevent_initial_call=True)  # fmt: skip
    def look(_: int, known: str) -> tuple[Any, Any]:
        version = live.version()
        return (version if version != known else no_update), [html.P(problem) for problem in live.problems()]

    @app.callback(Output("studies", "options"), version, prevent_initial_call=True)
    def list_studies(_: str) -> list[str]:
        return live.studies()

    @app.callback(Output("chart", "figure"), Output("caption", "children"), Output("choices", "children"), Output("link", "data"),
                  Output("found", "children"), Output("again", "data"),
                  Input("views", "value"), studies, words, Input("theme", "data"), version, Input({"choice": ALL}, "value"),
                  State("link", "data"), State("choices", "children"))  # fmt: skip
    def draw(
        view: str, studies: list[str], text: str, theme: str, _: str, __: list[str], link: str, shown: list[Any]
    ) -> Any:
        turned = ctx.triggered_id == "views"
        asked = {} if turned else {part["id"]["choice"]: part["value"] for part in ctx.inputs_list[5]}
        chosen = choose(live, view, studies or [], text, asked)
        if isinstance(ctx.triggered_id, dict) and chosen.link == link:
            raise PreventUpdate  # the choices of another view have just come
        offers = [[choice.name, *choice.options] for choice in chosen.offered if len(choice.options) > 1]
        known = not turned and offers == [_offered(part) for part in shown or []]
        figure, caption = _drawn(chosen, theme)
        note = " ".join(filter(None, (caption, live.notes(studies or []))))
        rows = {"version": "refreshInfiniteCache", "studies": "purgeInfiniteCache", "filter": "purgeInfiniteCache"}
        again = [rows[str(ctx.triggered_id)], time.time()] if ctx.triggered_id in rows else no_update
        return figure, note, no_update if known else _dropdowns(chosen), chosen.link, _found(chosen), again

    @app.callback(Output("progress", "children"), Output("failures", "children"), Output("failed", "hidden"),
                  Output("summary", "children"), studies, version)  # fmt: skip
    def follow(studies: list[str], _: str) -> tuple[Any, Any, bool, Any]:
        parts, failures = live.progress(studies or []), live.failures(studies or [])
        left = live.time_left(studies or [])
        return progress_table(parts), failure_list(failures), not failures, progress_summary(parts, left)

    @app.callback(
        Output("runs", "columnDefs"), studies, version, State("runs", "columnDefs"), prevent_initial_call=True
    )
    def list_columns(studies: list[str], _: str, shown: list[dict]) -> Any:
        columns = run_columns(live.frames(studies or []).runs)
        return no_update if columns == shown else columns

    @app.callback(Output("runs", "getRowsResponse"), Input("runs", "getRowsRequest"), State("studies", "value"),
                  State("filter", "value"), prevent_initial_call=True)  # fmt: skip
    def list_runs(asked: dict[str, Any] | None, studies: list[str], text: str) -> Any:
        if not asked:
            return no_update
        runs = _sorted(filtered(live.frames(studies or []).runs, text), asked.get("sortModel") or [])
        part = runs.iloc[asked["startRow"] : asked["endRow"]].astype(object)
        return {"rowData": part.where(part.notna(), None).to_dict("records"), "rowCount": len(runs)}

    @app.callback(Output("download", "data"), Input("csv", "n_clicks"), State("studies", "value"), State("filter", "value"),
                  prevent_initial_call=True)  # fmt: skip
    def save(_: int, studies: list[str], text: str) -> dict[str, Any]:
        file = io.StringIO()
        write_csv(_sorted(filtered(live.frames(studies or []).runs, text), []), file)
        return {"content": file.getvalue(), "filename": "runs.csv"}


def _sorted(runs: Frame, by: list[dict[str, str]]) -> Frame:
    """The columns that are shown, by the order that is asked for, or the best first."""
    if runs.empty:
        return runs
    known = [(each["colId"], each["sort"] == "asc") for each in by if each["colId"] in runs] or [("accuracy", False)]
    names, up = zip(*known, strict=True)
    return runs[shown_columns(runs)].sort_values(list(names), ascending=list(up), kind="stable")


def _found(chosen: Chosen) -> str:
    """How many runs there are to see."""
    if len(chosen.frames.runs):
        return f"{len(chosen.frames.runs)} runs, the best first."
    return "No run fits." if chosen.filter else "No run has been measured yet."


def _drawn(chosen: Chosen, theme: str) -> tuple[go.Figure, str]:
    """The chart, and what a reader has to know of it."""
    view, tone = VIEWS.find(chosen.view)(), "dark" if theme.startswith("dark") else "light"
    asked = {choice.name: chosen.choices.get(choice.name, choice.default) for choice in chosen.offered}
    try:
        figure = view.drawn(chosen.frames, asked, tone)
        caption = view.caption(chosen.frames) if figure.data else ""
    except (SpecError, ValueError, KeyError) as error:
        figure, caption = set_theme(go.Figure(), tone), f"This cannot be drawn: {error}"
    if "narrow" in theme:
        traces: Any = figure.data  # the key goes under the chart
        lines = sum(trace.type == "scatter" and trace.showlegend is not False for trace in traces)
        key = {"orientation": "h", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom", "font": {"size": 11}}
        figure.update_layout(legend=key, margin={"b": 60 + 20 * min(lines, 13) if lines > 1 else 48})
        figure.for_each_xaxis(lambda axis: axis.update(dtick=1) if axis.type == "log" and not axis.tickvals else None)
    else:  # a margin that is known takes the browser half the time, and one line of numbers has room in it
        figure.for_each_xaxis(lambda axis: axis.update(automargin=False) if axis.type in ("log", "linear") else None)
    return figure.update_layout(uirevision=f"{chosen.view} {chosen.studies} {asked}"), caption


def _dropdowns(chosen: Chosen) -> list[html.Label]:
    """A control for everything that can be chosen."""
    return [
        html.Label([choice.label, dcc.Dropdown(
            [{"label": label, "value": value} for value, label in choice.options.items()],
            chosen.choices.get(choice.name, choice.default), id={"choice": choice.name}, clearable=False,
            searchable=len(choice.options) > 8)])
        for choice in chosen.offered if len(choice.options) > 1
    ]  # fmt: skip


def _offered(part: dict[str, Any]) -> list[str]:
    """The name of the choice, and what it offers, of a control as the browser sends it."""
    properties = part["props"]["children"][1]["props"]
    return [properties["id"]["choice"], *(option["value"] for option in properties["options"])]
