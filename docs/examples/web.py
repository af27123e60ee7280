"""A small web application for gunicorn: each request builds and drops a page of rows."""


def app(environ, start_response):
    rows = [f"<tr><td>{number}</td><td>{'x' * (number % 50)}</td></tr>" for number in range(500)]
    page = "\n".join(rows).encode()
    start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(len(page)))])
    return [page]
