"""The exit statuses of the commands, besides 0."""

FAILED = 1  # a trial, or what the command needs
USAGE = 2  # bad input: nothing was begun
INTERRUPTED = 130  # by Ctrl-C or SIGTERM: the same command goes on
