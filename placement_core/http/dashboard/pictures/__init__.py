"""Pictures of the dashboard: SVG, made from numbers.

Each function is pure. It takes small records of numbers and returns markup in which every text is
escaped. What a picture looks like is said by classes, for the style sheets; where its parts are,
by attributes of SVG. Nothing is told by colour alone: each kind of amount has a pattern of its own
(``patterns``), and a page has the numbers of each picture in a table.

Pictures are as wide as their place: positions on the horizontal axis are in percent, so that texts
and lines keep their size on a small screen and when they are magnified.
"""
