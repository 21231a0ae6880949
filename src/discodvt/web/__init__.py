"""The shell around every server of this package: who may ask, how much, how slowly; and how such a server is run.

    def make(access: Access) -> Shell:
        app = make_app("judge")                         # a FastAPI application whose errors are JSON of one shape
        add_files(app, "discodvt.judging", {"/": "pages/judge.html", "/judge.js": "pages/judge.js"})
        return in_shell(app, access)

    serve(make, make_access("127.0.0.1", 8321), announce=print)   # until Ctrl-C; a port in use is a `BadRequest`

| file | what it decides |
|---|---|
| `access.py` | Host, Origin, content type, token: which requests are answered at all |
| `strict_json.py` | what JSON is taken: no NaN, no deep nesting, no endless numbers |
| `shell.py` | the ASGI middleware that asks both, limits and reads bodies, and adds the security headers |
| `application.py` | FastAPI with typed errors; pages from a fixed table of names |
| `lane.py` | which of those who can wait is next, and when |
| `server.py` | the socket, timeouts for slow clients, the browser |

Raise `HttpError` (or `BadRequest`, which becomes 400) in a route. The shell answers `/api/health` itself. FastAPI and
uvicorn come with the extra `studio`.
"""
