"""A mirror of what the service has, in thirty lines."""

import requests


class Mirror:
    """Keeps the documents of all objects: ``objects[kind, id]``."""

    def __init__(self, url, token):
        self.objects = {}
        self._url = f"{url}/capacity/v1/changes"
        self._after = None
        self._session = requests.Session()
        self._session.headers["X-Auth-Token"] = token

    def follow(self, wait=30):
        """Apply what changed, wait for it if need be; return whether there is more."""
        query = {"include": "document", "wait": wait, "after": self._after}
        response = self._session.get(self._url, params=query, timeout=wait + 30)
        if response.status_code == 410:  # away for too long, or another database
            self.objects.clear()
            self._after = None
            return True
        response.raise_for_status()
        answer = response.json()
        for change in answer["changes"]:
            key = change["kind"], change["id"]
            if change["deleted"]:
                self.objects.pop(key, None)
            else:
                self.objects[key] = change["document"]
        self._after = answer["next"]
        return answer["more"]
