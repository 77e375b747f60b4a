"""What the peers hold of each other against what is true: detection, false deaths, one view."""

import math

from .network import CUTTING

# A verdict is false only when its subject ran and could be reached for this long before: what was
# decided during a fault may arrive a little later.
SETTLED = 5.0
# One view must last this long to count: tables are heard one after the other, so that a moment's
# agreement may never have been.
LASTING = 3.0
# A minute, less what a change may be seen late by.
VERDICT_WINDOW = 59.0
# A path that loses this part of its packets, or more, reaches nobody.
LOSS_OF_NO_PATH = 0.5


def cuts(event):
    """Whether nothing passes on the paths of a partition or a degradation."""
    return event["kind"] in CUTTING or (
        event.get("conditions", {}).get("loss", 0) >= LOSS_OF_NO_PATH)


def is_to_notice(observer, victim, faults):
    """Whether a death is judged by who holds the victim alive. Who is apart from it, and from others
    too, may have nobody to hear it from. `faults`: partitions and degradations in force."""
    def concerns(event):
        return any((observer in paths["from"] and victim in paths["to"])
                   or (victim in paths["from"] and observer in paths["to"])
                   for paths in event["paths"])
    cut = [event for event in faults if cuts(event)]
    return not (any(concerns(event) for event in cut)
                and any(observer in event["peers"] for event in cut))


class Verdicts:
    """Peers are numbers. `truth` says `running_since(n)` and `clear_since(a, b)`: since when,
    None while it is not so."""

    def __init__(self, truth, last_fault):
        """`last_fault`: when the last fault is over, seconds since the start."""
        self.truth, self.last_fault = truth, last_fault
        self.views = {}  # observer: (when, {number: "alive", "dead" or "left"})
        self.pending = {}  # (victim, observer): when the victim died
        self.detections = []  # (seconds, victim, observer, whether it was noticed at all)
        self.false = {}  # (victim, which fault): (when, observer, "dead" or "left")
        self.changes = {}  # (observer, victim): times
        self.log = []  # (when, observer, victim, state)
        self.fault = 0
        self.agreed_at = None
        self.first_agreed = None
        self.frozen = False

    def _reachable(self, a, b):
        since = [self.truth.running_since(a), self.truth.running_since(b),
                 self.truth.clear_since(a, b), self.truth.clear_since(b, a)]
        return None if None in since else max(since)

    def fault_happened(self):
        """Verdicts from now on belong to another fault."""
        self.fault += 1

    def died(self, victim, now, observers):
        """A running peer was killed; `observers` hold it alive and are to notice."""
        for observer in observers:
            _, view = self.views.get(observer, (0, {}))
            if view.get(victim) == "alive" and self.truth.running_since(observer) is not None:
                self.pending[victim, observer] = now

    def forget(self, number):
        """A peer is disturbed: what it should have noticed no longer counts."""
        self.views.pop(number, None)
        for pair in [pair for pair in self.pending if pair[1] == number]:
            del self.pending[pair]

    def came_back(self, victim, now):
        """A dead peer starts again: who did not notice by now is known to be no faster."""
        for pair in [pair for pair in self.pending if pair[0] == victim]:
            self._unnoticed(pair, now)

    def _unnoticed(self, pair, now):
        """In a moment nobody can have noticed it: that says nothing of how fast they are."""
        since = self.pending.pop(pair)
        if now - since >= SETTLED:
            self.detections.append((now - since, *pair, False))

    def saw(self, observer, view, now):
        """A member table: {number: "alive", "dead" or "left"}."""
        _, before = self.views.get(observer, (0, {}))
        self.views[observer] = (now, view)
        for victim, state in view.items():
            if victim == observer or victim not in before or before[victim] == state:
                continue
            self.changes.setdefault((observer, victim), []).append(now)
            self.log.append((round(now, 2), observer, victim, state))
            if state != "alive":
                self._held_gone(observer, victim, state, now)
        self._compare(now)

    def _held_gone(self, observer, victim, state, now):
        since = self.pending.pop((victim, observer), None)
        if since is not None:
            self.detections.append((now - since, victim, observer, True))
        reachable = self._reachable(observer, victim)
        if reachable is not None and now - reachable >= SETTLED:
            self.false.setdefault((victim, self.fault), (now, observer, state))

    def said_goodbye(self, victim, now):
        """Its process has ended by itself: who heard before that it left was right."""
        self.false = {key: (when, observer, state)
                      for key, (when, observer, state) in self.false.items()
                      if key[0] != victim or state != "left" or now - when > SETTLED}

    def _compare(self, now):
        """Whether all tables agree on who runs."""
        if self.frozen or now < self.last_fault:
            return
        running = {n for n in self.views if self.truth.running_since(n) is not None}
        running |= self.truth.all_running()
        for number in running:
            when, view = self.views.get(number, (-1, {}))
            if when < self.last_fault or {n for n, s in view.items() if s == "alive"} != running:
                self.agreed_at = None
                return
        if self.agreed_at is None:
            self.agreed_at = now
        if self.first_agreed is None and now - self.agreed_at >= LASTING:
            self.first_agreed = self.agreed_at

    def freeze(self):
        """Peers begin to end their run: who runs changes without a fault."""
        self.frozen = True

    def finish(self, now):
        """No more is heard. What was never noticed counts with the time there was for it."""
        for pair in list(self.pending):
            self._unnoticed(pair, now)
        if self.first_agreed is None:
            self.first_agreed = self.agreed_at

    def verdicts_per_minute(self):
        most = 0
        for times in self.changes.values():
            for i, first in enumerate(times):
                most = max(most, sum(1 for t in times[i:] if t - first < VERDICT_WINDOW))
        return most

    def one_view_after(self):
        """Seconds from the last fault until one view; None: never."""
        if self.first_agreed is None:
            return None
        return max(0.0, self.first_agreed - self.last_fault)


def percentile(values, part):
    """The smallest value that at least this part of all do not exceed."""
    ordered = sorted(values)
    if not ordered:
        return None
    # Of what is a whole number but for rounding, that number.
    rank = math.ceil(part * len(ordered) - 1e-9)
    return ordered[max(0, min(len(ordered) - 1, rank - 1))]
