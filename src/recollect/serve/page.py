"""The live page: its parts, and what changes them. Text of a store only ever becomes text: Dash escapes it, and the views do for
Plotly."""

from importlib import resources
from pathlib import Path
from typing import Any

import dash_ag_grid as grid
import plotly.graph_objects as go
from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update

from recollect.serve.guard import guard
from recollect.serve.live import Live
from recollect.serve.parts import failure_list, progress_table, run_columns, summary
from recollect.spec import SpecError
from recollect.views import VIEWS
from recollect.views.base import Choice, Frames
from recollect.views.fields import measures, varying
from recollect.views.filter import matching
from recollect.views.style import set_theme

EVERY = 1500
"""Milliseconds between two looks at the stores."""
ROWS = 1000
"""Rows of the table of runs at most."""
_THEME = """(clicks, now) => {
  const dark = now ? !now.startsWith("dark") : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.body.dataset.agThemeMode = dark ? "dark" : "light";
  return `${dark ? "dark" : "light"}${innerWidth < 760 ? " narrow" : ""}`;
}"""
"""Which theme is shown, the system's at first and the other one after each click, and whether the page is narrow."""


def make_app(paths: list[Path], host: str, token: str = "") -> Dash:
    """The application over these stores."""
    live = Live(paths)
    live.version()
    live.frames(list(live.studies())[-1:])  # a large store takes seconds to read: before somebody waits for it
    app = Dash("recollect", title="recollect", update_title="", serve_locally=True, include_assets_files=False)
    guard(app.server, host, token)
    app.index_string = _index()
    app.layout = lambda: _layout(live, paths)
    _connect(app, live)
    return app


def _index() -> str:
    styles = [
        resources.files("recollect.reporting").joinpath("page", "page.css"),
        resources.files("recollect.serve").joinpath("serve.css"),
    ]
    style = "\n".join(path.read_text(encoding="utf-8") for path in styles)
    return (
        '<!doctype html><html lang="en"><head>{%metas%}<title>{%title%}</title><link rel="icon" href="data:,">{%css%}'
        f"<style>{style}</style></head><body><a class='skip' href='#main'>Skip to the results</a>"
        "{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body></html>"
    )


def _layout(live: Live, paths: list[Path]) -> html.Div:
    live.version()
    studies = live.studies()
    views = [
        {"label": VIEWS.find(name).title, "value": name} for name in VIEWS if "mixing" not in VIEWS.find(name).needs
    ]
    label: dict[str, Any] = {"aria-label": "Switch between light and dark"}
    switch = html.Button("◐", id="switch", **label)
    head = html.Div(
        [html.H1("recollect"), html.P(", ".join(map(str, paths)), className="made"), html.Div(id="summary")]
    )
    chosen = dcc.Dropdown(studies, list(studies)[-1:], id="studies", multi=True)
    words = dcc.Input(id="filter", type="search", placeholder="mamba2 accuracy>0.9", debounce=0.3)
    config: Any = {"displaylogo": False, "toImageButtonOptions": {"format": "svg", "filename": "recollect"}}
    options = {"suppressFieldDotNotation": True, "enableCellTextSelection": True, "rowHeight": 30, "headerHeight": 34}
    table = grid.AgGrid(id="runs", columnDefs=[], rowData=[], className="ag-theme-quartz-auto-dark", dashGridOptions=options,
                        csvExportParams={"fileName": "runs.csv"})  # fmt: skip
    return html.Div([
        dcc.Interval("tick", EVERY), dcc.Store("version", data=live.version()), dcc.Store("theme", data=""),
        html.Header([head, switch]), html.Div(id="problems", role="alert"),
        html.Main(id="main", tabIndex=-1, children=[
            html.Section(id="explore", children=[
                dcc.RadioItems(views, "window", id="views", inline=True),
                html.Div([html.Label(["studies", chosen], className="wide"), html.Div(id="choices"),
                          html.Label(["filter", words], className="filter")], className="controls"),
                dcc.Graph(id="chart", figure=go.Figure(), responsive=True, config=config), html.P(id="caption"),
            ]),
            html.Section([html.H2("Progress"), html.Div(id="progress", className="scroll", tabIndex=0)]),
            html.Section([html.H2("Failures"), html.Div(id="failures")], id="failed"),
            html.Section([html.Div([html.H2("Runs"), html.Button("CSV", id="csv")], className="under"),
                          html.P(id="found", className="soft"), table]),
        ]),
    ])  # fmt: skip


def _connect(app: Dash, live: Live) -> None:
    """What changes what."""
    app.clientside_callback(_THEME, Output("theme", "data"), Input("switch", "n_clicks"), State("theme", "data"))

    @app.callback(
        Output("version", "data"),
        Output("problems", "children"),
        Input("tick", "n_intervals"),
        State("version", "data"),
    )
    def look(_: int, known: str) -> tuple[Any, Any]:
        version = live.version()
        return (version if version != known else no_update), [html.P(problem) for problem in live.problems()]

    @app.callback(Output("studies", "options"), Input("version", "data"))
    def list_studies(_: str) -> dict[str, str]:
        return live.studies()

    @app.callback(Output("choices", "children"), Input("views", "value"), Input("studies", "value"), Input("version", "data"),
                  State({"choice": ALL}, "value"), State("choices", "children"))  # fmt: skip
    def offer(name: str, studies: list[str], _: str, values: list[str], shown: list[Any] | None) -> Any:
        frames, view = live.frames(studies or [], VIEWS.find(name).needs), VIEWS.find(name)()
        choices = [choice for choice in view.choices(frames) if len(choice.options) > 1]
        if ctx.triggered_id == "version" and [c.name for c in choices] == [_name(part) for part in shown or []]:
            return no_update
        return [_dropdown(choice) for choice in choices]

    @app.callback(Output("chart", "figure"), Output("caption", "children"), Input("views", "value"), Input("studies", "value"),
                  Input({"choice": ALL}, "value"), Input("filter", "value"), Input("theme", "data"),
                  Input("version", "data"))  # fmt: skip
    def draw(name: str, studies: list[str], _: list[str], text: str, theme: str, __: str) -> tuple[go.Figure, str]:
        view, frames = VIEWS.find(name)(), _filtered(live.frames(studies or [], VIEWS.find(name).needs), text)
        offered = {choice.name: choice for choice in view.choices(frames)}
        asked = {part["id"]["choice"]: part["value"] for part in ctx.inputs_list[2]}
        kept = {key: value for key, value in asked.items() if key in offered and value in offered[key].options}
        tone, narrow = (theme or "light").split(" ")[0], "narrow" in (theme or "")
        try:
            figure, caption = view.figure(frames, theme=tone, **kept), view.caption(frames)
        except (SpecError, ValueError, KeyError) as error:
            figure, caption = set_theme(go.Figure(), tone), f"This cannot be drawn: {error}"
        if narrow:
            figure.update_layout(legend={"orientation": "h", "y": -0.2, "yanchor": "top"})
        return figure.update_layout(uirevision=f"{name} {studies} {kept}"), caption

    @app.callback(Output("progress", "children"), Output("failures", "children"), Output("failed", "hidden"),
                  Output("summary", "children"), Input("studies", "value"), Input("version", "data"))  # fmt: skip
    def follow(studies: list[str], _: str) -> tuple[Any, Any, bool, Any]:
        parts, failures = live.progress(studies or []), live.failures(studies or [])
        return (
            progress_table(parts),
            failure_list(failures),
            not failures,
            summary(parts, live.time_left(studies or [])),
        )

    @app.callback(Output("runs", "rowData"), Output("runs", "columnDefs"), Output("found", "children"), Input("studies", "value"),
                  Input("filter", "value"), Input("version", "data"))  # fmt: skip
    def list_runs(studies: list[str], text: str, _: str) -> tuple[list[dict], list[dict], str]:
        runs = _filtered(live.frames(studies or []), text).runs
        if runs.empty:
            return [], [], "No run fits." if text else "No run has been measured yet."
        columns = (
            "id",
            "study",
            "configuration",
            "train.lr",
            "train.seed",
            "status",
            "step",
            *varying(runs),
            *measures(runs),
            "state_size",
        )
        names = [name for name in dict.fromkeys((*columns, "parameters", "seconds")) if name in runs]
        shown = runs.sort_values("accuracy", ascending=False, kind="stable").head(ROWS)[names].astype(object)
        note = f"{len(runs)} runs, the best first." if len(runs) <= ROWS else f"The best {ROWS} of {len(runs)} runs."
        return shown.where(shown.notna(), None).to_dict("records"), run_columns(runs[names]), note

    @app.callback(Output("runs", "exportDataAsCsv"), Input("csv", "n_clicks"), prevent_initial_call=True)
    def save(_: int) -> bool:
        return True


def _filtered(frames: Frames, text: str | None) -> Frames:
    if not text or frames.runs.empty:
        return frames
    return Frames(
        frames.runs.loc[matching(frames.runs, text)], frames.curves, frames.slices, frames.mixing, frames.threshold
    )


def _dropdown(choice: Choice) -> html.Label:
    options = [{"label": label, "value": value} for value, label in choice.options.items()]
    part = dcc.Dropdown(
        options, choice.default, id={"choice": choice.name}, clearable=False, searchable=len(options) > 8
    )
    return html.Label([choice.label, part])


def _name(part: dict[str, Any]) -> str:
    """The choice that a part of the page, as the browser sends it, stands for."""
    return part["props"]["children"][1]["props"]["id"]["choice"]
