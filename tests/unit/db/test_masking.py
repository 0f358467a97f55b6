"""URLs are shown without their secrets."""

from placement_core.db.masking import masked, masked_in
from tests import base


class TestMasking(base.TestCase):
    def test_urls(self) -> None:
        for url, shown in (
            ("", ""),
            ("sqlite:////var/lib/nova.sqlite", "sqlite:////var/lib/nova.sqlite"),
            ("mysql+pymysql://u:secret@h:3306/d?charset=utf8",
             "mysql+pymysql://u:***@h:3306/d?charset=utf8"),
            ("postgresql://u:@h/d", "postgresql://u:***@h/d"),
            ("postgresql:///d?host=/run&password=secret&user=u",
             "postgresql:///d?host=/run&password=***&user=u"),
            ("mysql://u:p@h/d?ssl_key=/secret", "mysql://u:***@h/d?ssl_key=***"),
            ("rabbit://u:secret@h:5672,v:secret@i:5672/v",
             "rabbit://u:***@h:5672,v:***@i:5672/v"),
            ("none:///", "none:///"),
        ):
            self.assertEqual(shown, masked(url), url)

    def test_whatever_it_is_the_secret_is_not_shown(self) -> None:
        for url in (
            "secret", "secret@host", "u:secret@h/d", "mysql://u:sec/secret@h/d",
            "mysql://u:secret@secret@h/d", "mysql://u:a:secret@h/d", "mysql://u:secret,x@h/d",
            "mysql://u:secret#x@h/d", "mysql://secret@h/d", "mysql://u:secret?x@h/d",
            "mysql://u:?secret@h/d", "mysql://u:secret@h/d?x=u:secret@h",
            "{scheme}://u:secret@{hostname}/d", "://u:secret@h",
        ):
            self.assertNotIn("secret", masked(url), url)

    def test_in_the_midst_of_a_text(self) -> None:
        for text in (
            "{'url': 'mysql://u:secret@h/d', 'id': 1}", "['rabbit://u:secret@h,v:secret@i']",
            "x://u:se/secret@h y://u:secret@h", '"postgresql:///d?user=u&password=secret"',
        ):
            self.assertNotIn("secret", masked_in(text))
        self.assertEqual("'x' is not of type 'object'", masked_in("'x' is not of type 'object'"))
        self.assertEqual("{'url': 'mysql://***@h/d', 'id': 1}",
                         masked_in("{'url': 'mysql://u:secret@h/d', 'id': 1}"))
