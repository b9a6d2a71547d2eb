"""The groups in which `situ --help` shows the commands, and their order."""

from __future__ import annotations

from typer.core import TyperGroup

RUN, OPERATE, PLAN, EXPERIMENTS = "Run", "Operate", "Plan", "Experiments"
PANELS = (RUN, OPERATE, PLAN, EXPERIMENTS)


class CommandsByPanel(TyperGroup):
    """Commands in the order of their panels: as they are registered, those of other files would come last."""

    def list_commands(self, ctx: object) -> list[str]:
        def place(name: str) -> int:
            panel = getattr(self.commands[name], "rich_help_panel", None)
            return PANELS.index(panel) if panel in PANELS else len(PANELS)

        return sorted(self.commands, key=place)
