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
            (_SOURCE, "{scheme}://not{username}:{password}@{hostname}:1{port}/{path}?{query}"
                      "&flavor=coolranch#{fragment}"),
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
        self.assertEqual(
            "rabbit://u1@one", urls.fill("{scheme}://{username}@{hostname}", _SEVERAL))

    def test_an_address_keeps_its_brackets(self):
        self.assertEqual(
            "postgresql://n@[::1]:5432/c",
            urls.fill("{scheme}://n@{hostname}:{port}/c", "postgresql://n@[::1]:5432/nova"))

    def test_what_the_source_lacks_is_named(self):
        for template in ("mysql://{hostname}:{port}/d", "mysql://u:{password}@h/d"):
            error = self.assertRaises(
                errors.ConfigurationError, urls.fill, template, "mysql://nova@h/nova")
            self.assertIn("template_connection", str(error))

    def test_an_at_sign_after_the_login(self):
        for place in ("/nova?host=@abstract", "db/nova?application_name=a@b", "db/n@va?charset=x"):
            path, _, query = place.partition("/")[2].partition("?")
            self.assertEqual(
                f"mysql://nova:pw@h/{path}?{query}",
                urls.fill("mysql://{username}:{password}@h/{path}?{query}",
                          f"postgresql://nova:pw@{place}"))

    def test_what_is_no_template_needs_no_source(self):
        self.assertEqual(
            "mysql://{odd}@{hostname}/d",
            urls.fill("mysql://{odd}@{hostname}/d", "mysql://nova:s3/cr3t@db/nova"))

    def test_a_field_is_no_expression(self):
        for template in ("mysql://{scheme.__class__}/d", "mysql://{scheme!r:>99999999}/d",
                         "mysql://{0}/d", "mysql://{}/d"):
            self.assertEqual(template, urls.fill(template, _SOURCE))


class TestSecretsOfTheSource(testtools.TestCase):
    """Whoever may write a template must not learn what fills it."""

    SOURCE = "postgresql://nova:s3cr3t@db.example.org:5432/nova?password=s3cr3t"

    def refusal(self, template, source=SOURCE):
        return str(self.assertRaises(
            errors.ConfigurationError, urls.fill, template, source))

    def test_a_login_stands_where_somebody_logs_in(self):
        for template in (
            "{password}://u@h/d", "mysql+{password}://u@h/d", "mysql://{password}@h/d",
            "mysql://{password}:x@h/d", "mysql://u@{password}/d", "mysql://u:{password}/d",
            "mysql://u@h:{password}/d", "mysql://u@h/{password}", "mysql://u:x@h/{password}@i",
            "mysql://{username}:{password}@h/{password}", "mysql://u@h/d?{password}=1",
            "mysql://u@h/d?charset={password}", "{password}", "{username}@h",
            "mysql://u@{username}/d", "mysql://u:x@h/{username}",
        ):
            refusal = self.refusal(template)
            self.assertNotIn("s3cr3t", refusal)
            self.assertRegex(refusal, r"\{(username|password)\}")
        self.assertIn("{password2}", self.refusal("mysql://{password2}@h/d", _SEVERAL))

    def test_parameters_stand_alone(self):
        for template in ("mysql://u@{query}/d", "mysql://u:{query}@h/d", "mysql://u@h/{query}",
                         "postgresql://u@h/d?application_name={query}", "mysql://u@h/d?{query}x"):
            refusal = self.refusal(template)
            self.assertNotIn("s3cr3t", refusal)
            self.assertIn("{query}", refusal)

    def test_a_source_that_is_cut_at_the_wrong_place(self):
        for password in ("s3/cr3t", "s3?cr3t", "s3#cr3t", "s3[cr3t", "s[3]cr3t"):
            refusal = self.refusal("mysql://u@h/{port}", f"mysql://nova:{password}@db/nova")
            self.assertIn("percent-encoded", refusal)
            self.assertNotIn("s3", refusal)
        self.assertEqual(
            "mysql://s3,cr3t@h", urls.fill("mysql://{username}@h", "mysql://s3,cr3t@db/nova"))
        self.assertNotIn("s3", self.refusal("mysql://u@h/{port}", "mysql://nova:s3,cr3t@db/nova"))


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
        rules = urls.UrlRules(
            ("db1", "*.db.example.org", "10.0.*", "/run/mysqld/*", "fd00::5"), ())
        for url in ("mysql://u@db1/d", "mysql://u@DB1/d", "postgresql://a.db.example.org/d",
                    "mysql://10.0.3.4:3307/d", "mysql:///d?unix_socket=/run/mysqld/s",
                    "postgresql:///d?host=db1:1&host=10.0.1.1", "postgresql:///d?host=fd00::5",
                    "postgresql://[fd00::5]/d", "postgresql:///d?host=fd00::5,db1"):
            urls.require_allowed(sa.make_url(url), rules)
        for url in ("mysql://u@db2/d", "postgresql://db.example.org.evil/d", "mysql:///d",
                    "postgresql://db1/d?host=evil", "postgresql:///d?hostaddr=169.254.169.254",
                    "postgresql:///d?host=db1,evil", "mysql://[::1]/d", "mysql://db1@evil/d",
                    "mysql://db1/d?unix_socket=/run/other",
                    "postgresql://u@evil.com,a.db.example.org/d", "postgresql://10.0.0.1,evil/d",
                    "postgresql://a.db.example.org,evil/d", "mysql://10.0.evil.com/d",
                    "postgresql:///d?host=fd00::6", "postgresql:///d?host=db1::6",
                    "postgresql:///d?host=db1:x", "postgresql:///d?host=db1:1,db1"):
            self.assertIn("[cells] database_hosts", self.refusal(url, rules))

    def test_patterns_of_names_without_letters(self):
        for pattern, host in (("*-1", "db-1"), ("*1", "db1"), ("??-[0-9]", "db-1"),
                              ("1-*", "1-db"), ("[!0-9]*", "db"), ("*.1", "10.0.0.1"),
                              ("[0-9]*", "10.0.0.1")):
            urls.require_allowed(
                sa.make_url(f"mysql://{host}/d"), urls.UrlRules((pattern,), ()))
        for pattern in ("10.*", "1?.*", "[12]0.*", "1[!2].*", "10*"):
            self.assertIn("[cells] database_hosts", self.refusal(
                "mysql://10.a.0/d", urls.UrlRules((pattern,), ())), pattern)

    def test_hosts_and_ports_that_do_not_fit(self):
        for url in ("postgresql://h/d?port=1,2", "postgresql:///d?host=a:b:c&host=a:b:c"):
            self.assertIn("hosts and ports", self.refusal(url))

    def test_without_a_list_any_host_but_no_socket(self):
        for url in ("mysql://anything/d", "postgresql:///d?host=::1"):
            urls.require_allowed(sa.make_url(url), self.rules)
        for url in ("mysql:///d?unix_socket=/run/mysqld/s", "postgresql:///d?host=/run/pg",
                    "postgresql:///d?host=@abstract"):
            self.assertIn("[cells] database_hosts", self.refusal(url))

    def test_without_a_host(self):
        """Most drivers then take a socket, where the service logs in as who it is here."""
        rules = urls.UrlRules(("localhost", "x"), ())
        for url in (
            "postgresql:///d", "postgresql://u@/d", "postgresql:///d?host=,x",
            "postgresql:///d?host=,", "postgresql:///d?host=:5432", "postgresql://x,/d",
            "postgresql:///d?host=:5%0a", "postgresql:///d?host=::1&host=x",
            "postgresql:///d?hostaddr=", "mysql+mysqldb:///d", "mysql+mysqldb://localhost/d",
            "mysql+mysqldb://LOCALHOST/d",
        ):
            for each in (rules, self.rules):
                self.assertIn("[cells] database_hosts", self.refusal(url, each), url)
            urls.require_allowed(sa.make_url(url), urls.UrlRules(("/*", "x"), ()))
        for url in ("mysql+pymysql:///d", "mysql+pymysql://localhost/d",
                    "postgresql://localhost/d"):
            urls.require_allowed(sa.make_url(url), rules)
        urls.require_allowed(sa.make_url("postgresql:///d?hostaddr=::1"), self.rules)
        # An address that begins with colons is a host.
        self.assertIn("[cells] database_hosts", self.refusal(
            "postgresql://u@/d?host=::ffff:192.0.2.6", urls.UrlRules(("/",), ())))

    def test_drivers_and_ports(self):
        self.assertIn("aiomysql", self.refusal("mysql+aiomysql://h/d"))
        self.assertIn("aiosqlite", self.refusal(f"sqlite+aiosqlite:///{self.folder}/d"))
        for port in (0, 65536, 99999999999):
            self.assertIn(str(port), self.refusal(f"mysql://h:{port}/d"))


class TestSameHosts(testtools.TestCase):
    def test_addresses(self):
        source = sa.make_url("postgresql://u:p@/nova?host=fd00::5")
        for url in ("postgresql://u:p@/x?host=fd00::5", "postgresql://u:p@[fd00::5]/x"):
            urls.require_same_hosts(sa.make_url(url), source)
        for url in ("postgresql://u:p@/x?host=fd00:6666::bad", "postgresql://u:p@fd00/x",
                    "postgresql://u:p@/x?host=fd00::5,fd00::6"):
            self.assertRaises(urls.UrlRefused, urls.require_same_hosts, sa.make_url(url), source)
