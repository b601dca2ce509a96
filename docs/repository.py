"""A hook of mkdocs: a page says REPOSITORY, and the site says `repo_url` of mkdocs.yml, where an owner has set one."""


def on_page_markdown(markdown, config, **_):
    return markdown.replace("REPOSITORY", config.repo_url or "REPOSITORY")
