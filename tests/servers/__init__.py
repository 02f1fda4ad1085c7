"""Local servers for tests: real programs that speak real wire protocols on loopback.

process            starts a program, waits until it answers, ends its whole process group
loopback           threaded HTTP server that can also stall, hang up and be closed at once
anthropic_server   scripted Messages and Models API that counts what it was paid for
anthropic_replies  what it can answer, from a plain message to an HTML page
slack_server       Slack's Web API, as far as a bot that posts needs it
slack_replies      its ways to fail, and the limits of a message
s3                 an S3 server, and one that is lenient about conditional writes
small_model        a small language model behind llama.cpp's own /v1/messages
questions          questions that the small model answers, and its worse copy mostly does not
"""
