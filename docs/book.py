"""What turns the pages, which are written for GitHub, into the book of mkdocs.yml: anchors as GitHub makes them, and links to files outside
of docs/ as links to the repository's files by name.
"""
import posixpath
import re


def slug(heading, separator):
    """The anchor of a heading, as GitHub makes it (tests/links.py checks links by the same rule)."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_config(config):
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_page_markdown(markdown, page, config, files):
    """Links that lead out of docs/, such as ../../bench/README.md, become the file's name as code; so do links to programs and examples."""
    folder = posixpath.dirname(page.file.src_uri)

    def link(match):
        target = posixpath.normpath(posixpath.join(folder, match[2].split("#")[0]))
        outside = target.startswith("..") or target.startswith("example/") or target.endswith((".py", ".c", ".h"))
        name = posixpath.normpath("docs/" + target)
        if not outside or "://" in match[2]:
            return match[0]
        return f"`{name}`" if match[1].strip("`").endswith(posixpath.basename(name)) else f"{match[1]} (`{name}`)"

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^()\s]+)\)", link, markdown)
