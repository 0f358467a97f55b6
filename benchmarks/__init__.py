"""The service against OpenStack Placement and Keystone, in one run on one machine.

``python -m benchmarks`` (``make bench``) installs each of them into an environment
of its own, serves ours and one of them with Granian on the same database server,
loads the same dataset into both, and measures them in turns:

machine        what it runs on, without names
processes      processor time and memory of process trees
client         requests over HTTP, timed by ``plload.c``
databases      fresh databases, copies of them, on three kinds of server
servers        the sides: how each is installed, set up and served
datasets       what is loaded: hosts, trees, devices, pools, allocations
limits         what is loaded: projects and their limits
leases         what is loaded: hosts of the freepool and a year of leases
filling        loading a dataset into one side, and keeping it for the next run
cloning        more hosts like those that were loaded
workloads      what is asked, and what it must leave behind
agreement      whether two answers say the same
rows           the table of what is measured, and its floors
compare        turns of A and B, and their ratios
growth         how cost grows with the dataset: ours alone
decisions      one enforcement decision, made in this process
leasing        leases: what they cost among others, and how late they start; ours alone
cells          one count over cells that are some way off, made in this process
runs           a run, saved row by row
report, plot   the run as lines, JSON and a picture
page           the results in the documents
"""
