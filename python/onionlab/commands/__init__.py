"""The commands: what each takes and says.

What they do lies elsewhere (``carried_out`` and packages beside this one), and is loaded when a command is given.

Exit codes: 0 done, 1 a run failed, 2 the input was refused, 3 an interval is not as narrow as asked for, 130 interrupted.
"""

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_TOO_WIDE = 3
EXIT_INTERRUPTED = 130
