"""Sluice's daemon, by its API on a unix socket."""

import http.client
import json
import socket


class Refused(Exception):
    """The daemon has answered that it does not do what it was asked."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("sluice", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    def __init__(self, path, timeout=10):
        self.path, self.timeout = path, timeout

    def get_ports(self):
        """Return the ports that the daemon was told of last, as a list of dicts. Raise OSError, HTTPException or Refused."""
        return self._request("GET", None)["ports"]

    def put_ports(self, ports):
        """Replace those ports. Return what the daemon makes of each. Raise as get_ports."""
        return self._request("PUT", json.dumps({"ports": ports}))["ports"]

    def _request(self, method, body):
        connection = _Connection(self.path, self.timeout)
        try:
            connection.request(method, "/v1/ports", body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            content = json.loads(text)
            if answer.status == 200:
                return {"ports": content["ports"]}
            text = f"{content['error']}; {content.get('remedy', '')}".rstrip("; ")
        except (ValueError, TypeError, KeyError):
            pass
        raise Refused(f"{answer.status}: {text[:300]}")
