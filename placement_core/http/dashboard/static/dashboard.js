// What the dashboard's pages do beyond what they do without scripts.
import "./refresh.js";
import "./grid.js";
import "./tree.js";
import "./bars.js";
import "./copy.js";
