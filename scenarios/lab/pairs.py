"""Which peers are linked, and how their links go: by what both ends say."""


def path_of(link):
    """How a link goes, as the scenario language names it."""
    return "circuit" if link.get("carrier") == "circuit" else "direct"


class Pairs:
    """Peers are numbers; their names are "peer-N"."""

    def __init__(self, expected):
        """`expected`: {"direct": pairs, "circuit": pairs}, as the plan has it."""
        self.expected = {tuple(pair): path for path, pairs in expected.items() for pair in pairs}
        self.links = {}  # peer: {other: path}
        self.all_up = None  # when all of them first answered
        self.linked_within = None
        self.paths_within = None

    def heard(self, number, links, running, now, last_start):
        """What a peer says of its links at `now`. Times count from when all peers answer: how
        long a machine takes to start them says nothing of how they reach each other."""
        self.links[number] = {int(link["name"].rpartition("-")[2]): path_of(link)
                              for link in links if link["name"].startswith("peer-")}
        if now < last_start or not self.links.keys() >= set(running):
            return
        if self.all_up is None:
            self.all_up = now
        since = now - self.all_up
        if self.linked_within is None and all(
                self.path(a, b) for a in running for b in running if a < b):
            self.linked_within = since
        if self.paths_within is None and self.expected and all(
                self.path(a, b) == path for (a, b), path in self.expected.items()):
            self.paths_within = since

    def path(self, a, b):
        """How the two are linked; None: not both of them say that they are."""
        here, there = (self.links.get(x, {}).get(y) for x, y in ((a, b), (b, a)))
        if here is None or there is None:
            return None
        return "circuit" if "circuit" in (here, there) else "direct"

    def wrong(self):
        """The pairs that are not linked as expected now, in words."""
        return [f"peer-{a} and peer-{b}: {self.path(a, b) or 'no link'}, expected: {path}"
                for (a, b), path in self.expected.items() if self.path(a, b) != path]

    def forget(self, number):
        """A peer starts again."""
        self.links.pop(number, None)
