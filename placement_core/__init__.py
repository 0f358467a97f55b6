import warnings

# Pyramid 2.1 imports a module of setuptools that warns at every start, and needs it.
warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning, r"pyramid\.")
