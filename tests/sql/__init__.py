"""Views, queries and checks over a few given rows, in memory."""
