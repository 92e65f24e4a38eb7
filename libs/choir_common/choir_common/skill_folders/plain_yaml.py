"""YAML of front matter as texts, lists and dictionaries only. Imported late: it is slow to load."""

import yaml  # type: ignore[import-untyped]


class _PlainLoader(yaml.BaseLoader):  # type: ignore[misc]
    """A loader for which every scalar is a text, and which refuses aliases: few bytes can stand for many."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def load_plain_yaml(text: str) -> object:
    """Return the document; raises ValueError with the reason on one line."""
    try:
        # BaseLoader creates no objects: only texts, lists and dictionaries.
        return yaml.load(text, Loader=_PlainLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None
