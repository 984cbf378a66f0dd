"""A hook of MkDocs: the theme's script asks the repository's host for its stars and versions, and here it does not."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

ASKS = ' data-md-component="source"'
"""What makes the theme's script send a request when a page is opened."""


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Leave the link to the repository, and nothing that is fetched through it."""
    return output.replace(ASKS, "")
