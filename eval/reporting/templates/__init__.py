"""Templates of reports and cards."""


def environment():
    """The jinja environment: HTML is escaped, a missing value is an error."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("hf_albert_plus.eval.reporting", "templates"),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
