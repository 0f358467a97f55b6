"""URLs of cells: templates, and what a URL may make this machine do."""

import pathlib
import tempfile

import sqlalchemy as sa
import testtools
from nova import conf as nova_conf
from nova.objects import cell_mapping

from placement_core import errors
from placement_core.cells import urls

_SOURCE = "mysql+pymysql://nova:p%40ss@db.example.org:3306/nova?charset=utf8"
_SEVERAL = "rabbit://u1:p1@one:5671,u2:p2@two:5672/vhost"


class TestFill(testtools.TestCase):
    def test_as_nova_does(self):
        nova_conf.CONF([], project="nova", default_config_files=[])
        for source, template in (
            (_SOURCE, "{scheme}://{username}:{password}@{hostname}:{port}/nova_cell1?{query}"),
            (_SOURCE, "{scheme}://other:secret@{hostname}/{path}_cell0"),
            (_SOURCE, "mysql://u:p@h/d"),
            (_SOURCE, "mysql://u:{odd}@{hostname}/d"),
            (_SOURCE, "{scheme}://{hostname1}/d"),
        ):
            nova_conf.CONF.set_override("connection", source, "database")
            self.assertEqual(cell_mapping.CellMapping.format_db_url(template),
                             urls.fill(template, source), template)

    def test_several_servers(self):
        # Nova fills these for a message bus only.
        self.assertEqual(
            "rabbit://u1:p1@one:5671,u2:p2@two:5672/other",
            urls.fill("{scheme}://{username1}:{password1}@{hostname1}:{port1},"
                      "{username2}:{password2}@{hostname2}:{port2}/other", _SEVERAL))
        self.assertEqual("u1@one", urls.fill("{username}@{hostname}", _SEVERAL))

    def test_an_address_keeps_its_brackets(self):
        self.assertEqual(
            "postgresql://n@[::1]:5432/c",
            urls.fill("{scheme}://n@{hostname}:{port}/c", "postgresql://n@[::1]:5432/nova"))

    def test_what_the_source_lacks_is_named(self):
        for template in ("mysql://{hostname}:{port}/d", "mysql://u:{password}@h/d"):
            error = self.assertRaises(
                errors.ConfigurationError, urls.fill, template, "mysql://nova@h/nova")
            self.assertIn("template_connection", str(error))

    def test_a_field_is_no_expression(self):
        for template in ("mysql://{scheme.__class__}/d", "mysql://{scheme!r:>99999999}/d",
                         "mysql://{0}/d", "mysql://{}/d"):
            self.assertEqual(template, urls.fill(template, _SOURCE))


class TestAllowed(testtools.TestCase):
    def setUp(self):
        super().setUp()
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.rules = urls.UrlRules((), (str(self.folder),))

    def refusal(self, url, rules=None):
        return str(self.assertRaises(
            errors.ConfigurationError, urls.require_allowed, sa.make_url(url),
            rules or self.rules))

    def test_what_clouds_have(self):
        for url in (
            "mysql+pymysql://nova:secret@db/nova_cell1?charset=utf8mb4",
            f"mysql://nova@db:3307/c?ssl_ca={self.folder}/ca.pem&ssl_verify_cert=true",
            "postgresql://nova@db/c", "postgresql+psycopg2://nova@db/c?sslmode=require",
            "postgresql:///c?host=a:5432&host=b:5432&target_session_attrs=primary",
            f"postgresql://db/c?sslmode=verify-full&sslrootcert={self.folder}/ca.pem",
            f"sqlite:///{self.folder}/cell.sqlite",
        ):
            urls.require_allowed(sa.make_url(url), self.rules)

    def test_parameters_that_do_more_than_ask(self):
        for parameter in ("local_infile=1", "read_default_file=/etc/mysql/debian.cnf",
                          "read_default_group=client", "init_command=DROP", "client_flag=128",
                          "plugin=x", "defer_connect=1", "cursorclass=x", "bogus=1"):
            self.assertIn(parameter.partition("=")[0],
                          self.refusal(f"mysql://u@h/d?charset=utf8&{parameter}"))
        for parameter in ("passfile=/etc/shadow", "service=x", "options=-c", "krbsrvname=x"):
            self.assertIn(parameter.partition("=")[0],
                          self.refusal(f"postgresql://u@h/d?{parameter}"))
        self.assertIn("uri", self.refusal(f"sqlite:///{self.folder}/c?uri=true&mode=rwc"))

    def test_files_elsewhere(self):
        link = self.folder / "link"
        link.symlink_to("/etc")
        for path in ("/etc/passwd", f"{self.folder}/../x", f"{link}/passwd", "",
                     f"{self.folder}x/y", "relative", "file:/etc/passwd", "a\0b"):
            self.assertIn("[cells] directories", self.refusal(
                sa.URL.create("sqlite", database=path)), path)
            self.assertIn("[cells] directories", self.refusal(
                sa.URL.create("mysql", host="h", query={"ssl_ca": path})), path)
        self.assertIn("[cells] directories", self.refusal(
            f"sqlite:///{self.folder}/c", urls.UrlRules((), ())))

    def test_hosts(self):
        rules = urls.UrlRules(("db1", "*.db.example.org", "10.0.*", "/run/mysqld/*"), ())
        for url in ("mysql://u@db1/d", "mysql://u@DB1/d", "postgresql://a.db.example.org/d",
                    "mysql://10.0.3.4:3307/d", "mysql:///d?unix_socket=/run/mysqld/s",
                    "postgresql:///d?host=db1:1,10.0.1.1"):
            urls.require_allowed(sa.make_url(url), rules)
        for url in ("mysql://u@db2/d", "postgresql://db.example.org.evil/d", "mysql:///d",
                    "postgresql://db1/d?host=evil", "postgresql:///d?hostaddr=169.254.169.254",
                    "postgresql:///d?host=db1,evil", "mysql://[::1]/d", "mysql://db1@evil/d",
                    "mysql://db1/d?unix_socket=/run/other"):
            self.assertIn("[cells] database_hosts", self.refusal(url, rules))

    def test_without_a_list_any_host_but_no_socket(self):
        urls.require_allowed(sa.make_url("mysql://anything/d"), self.rules)
        for url in ("mysql:///d?unix_socket=/run/mysqld/s", "postgresql:///d?host=/run/pg",
                    "postgresql:///d?host=@abstract"):
            self.assertIn("[cells] database_hosts", self.refusal(url))

    def test_drivers_and_ports(self):
        self.assertIn("aiomysql", self.refusal("mysql+aiomysql://h/d"))
        self.assertIn("aiosqlite", self.refusal(f"sqlite+aiosqlite:///{self.folder}/d"))
        for port in (0, 65536, 99999999999):
            self.assertIn(str(port), self.refusal(f"mysql://h:{port}/d"))
