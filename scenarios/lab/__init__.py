"""Real peers in a laboratory: namespaces, a switch between them, faults by a timetable."""
