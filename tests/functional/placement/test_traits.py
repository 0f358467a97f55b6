import functools

import os_traits
import sqlalchemy as sa

from placement_core import db
from placement_core.placement import errors, providers, tables, traits
from placement_core.testing import factories
from tests import base, databases, races


def _names(found):
    return [trait.name for trait in found]


@databases.on_each_database
class TestTraits(base.DatabaseTestCase):

    def test_list(self):
        self.assertEqual(sorted(os_traits.get_traits()), sorted(_names(traits.list_(self.ctx))))

    def test_list_by_name(self):
        names = ["HW_CPU_X86_AVX2", "CUSTOM_NO", "hw_cpu_x86_mmx", "\0", "\ud800"]
        self.assertEqual(["HW_CPU_X86_AVX2"], _names(traits.list_(self.ctx, names=names)))
        self.assertEqual([], traits.list_(self.ctx, names=[]))
        many = [f"CUSTOM_{n}" for n in range(70000)]
        self.assertEqual(["HW_CPU_X86_MMX"],
                         _names(traits.list_(self.ctx, names=[*many, "HW_CPU_X86_MMX"])))

    def test_list_by_prefix(self):
        for name in ("CUSTOM_A_B", "CUSTOM_AXB"):
            traits.ensure(self.ctx, name)
        self.assertEqual(["CUSTOM_A_B"], _names(traits.list_(self.ctx, prefix="CUSTOM_A_")))
        for prefix in ("%", "custom", "\0", "\ud800", "X" * 999):
            self.assertEqual([], traits.list_(self.ctx, prefix=prefix))
        self.assertEqual(len(traits.list_(self.ctx)), len(traits.list_(self.ctx, prefix="")))

    def test_list_by_association(self):
        factories.provider(self.ctx, traits=["CUSTOM_A", "HW_CPU_X86_MMX"])
        traits.ensure(self.ctx, "CUSTOM_B")
        self.assertEqual(["CUSTOM_A", "HW_CPU_X86_MMX"],
                         _names(traits.list_(self.ctx, associated=True)))
        self.assertEqual(["CUSTOM_B"],
                         _names(traits.list_(self.ctx, associated=False, prefix="CUSTOM_")))

    def test_get(self):
        self.assertEqual("HW_CPU_X86_MMX", traits.get(self.ctx, "HW_CPU_X86_MMX").name)
        for name in ("CUSTOM_A", "hw_cpu_x86_mmx", "", "\0", "x" * 9999, "HW_CPU_X86_MMX\n"):
            error = self.assertRaises(errors.TraitNotFound, traits.get, self.ctx, name)
            self.assertEqual(f"No such trait(s): {name}.", str(error))

    def test_ensure(self):
        made, created = traits.ensure(self.ctx, "CUSTOM_A")
        self.assertTrue(created)
        self.assertIsNotNone(made.created_at)
        self.assertEqual((made, False), traits.ensure(self.ctx, "CUSTOM_A"))
        longest = "CUSTOM_" + "A" * 248
        self.assertTrue(traits.ensure(self.ctx, longest)[1])

    def test_bad_names(self):
        for name in ("HW_CPU_X86_MMX", "CUSTOM_", "CUSTOM_a", "CUSTOM_A\n", "CUSTOM_\0",
                     "CUSTOM_É", "CUSTOM_" + "A" * 249, ""):
            error = self.assertRaises(errors.InvalidTraitName, traits.ensure, self.ctx, name)
            self.assertIn("The trait is invalid. A valid trait must be no longer than 255",
                          str(error))

    def test_delete(self):
        traits.ensure(self.ctx, "CUSTOM_A")
        provider = factories.provider(self.ctx, traits=["CUSTOM_A"])
        error = self.assertRaises(errors.TraitInUse, traits.delete, self.ctx, "CUSTOM_A")
        self.assertEqual("The trait CUSTOM_A is in use by a resource provider.", str(error))
        traits.delete_for_provider(self.ctx, provider.uuid)
        traits.delete(self.ctx, "CUSTOM_A")
        self.assertRaises(errors.TraitNotFound, traits.delete, self.ctx, "CUSTOM_A")
        error = self.assertRaises(
            errors.StandardTrait, traits.delete, self.ctx, "HW_CPU_X86_MMX")
        self.assertEqual("Cannot delete standard trait HW_CPU_X86_MMX.", str(error))

    def test_writes_are_logged(self):
        provider = factories.provider(self.ctx)
        for kind, write in (
            ("trait", functools.partial(traits.ensure, self.ctx, "CUSTOM_A")),
            ("provider", functools.partial(
                traits.replace_for_provider, self.ctx, provider.uuid, ["CUSTOM_A"],
                generation=0)),
            ("provider", functools.partial(traits.delete_for_provider, self.ctx, provider.uuid)),
            ("trait", functools.partial(traits.delete, self.ctx, "CUSTOM_A")),
        ):
            with db.write(self.ctx) as session:
                write()
                self.assertEqual([kind], [change.kind for change in session.recorded_changes])


@databases.on_each_database
class TestProviderTraits(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.provider = factories.provider(self.ctx)

    def replace(self, names, generation):
        return traits.replace_for_provider(
            self.ctx, self.provider.uuid, names, generation=generation)

    def test_no_provider(self):
        uuid = factories.new_uuid()
        for call in (
            functools.partial(traits.list_for_provider, self.ctx, uuid),
            functools.partial(
                traits.replace_for_provider, self.ctx, uuid, ["CUSTOM_NO"], generation=7),
            functools.partial(traits.delete_for_provider, self.ctx, uuid),
        ):
            error = self.assertRaises(errors.ProviderNotFound, call)
            self.assertEqual(f"No resource provider with uuid {uuid} found", str(error))

    def test_replace(self):
        self.assertEqual(
            (0, ()), (self.provider.generation,
                      traits.list_for_provider(self.ctx, self.provider.uuid).traits))
        written = self.replace(["HW_CPU_X86_MMX", "HW_CPU_X86_AVX"], 0)
        self.assertEqual((1, ["HW_CPU_X86_AVX", "HW_CPU_X86_MMX"]),
                         (written.generation, sorted(_names(written.traits))))
        written = self.replace(["HW_CPU_X86_MMX", "HW_CPU_X86_SSE"], 1)
        self.assertEqual(
            written, traits.list_for_provider(self.ctx, self.provider.uuid))
        self.assertEqual(2, written.generation)

    def test_unknown_traits(self):
        error = self.assertRaises(
            errors.UnknownTraits, self.replace, ["CUSTOM_B", "HW_CPU_X86_MMX", "CUSTOM_A"], 0)
        self.assertEqual("No such trait CUSTOM_A, CUSTOM_B", str(error))
        for name in ("\0", "\ud800", "x" * 255, "hw_cpu_x86_mmx", "🐘"):
            self.assertRaises(errors.UnknownTraits, self.replace, [name], 0)
        self.assertRaises(
            errors.UnknownTraits, self.replace, [f"CUSTOM_{n}" for n in range(70000)], 0)
        self.assertEqual((), traits.list_for_provider(self.ctx, self.provider.uuid).traits)

    def test_every_trait_at_once(self):
        names = [trait.name for trait in traits.list_(self.ctx)]
        self.replace(names, 0)
        self.assertEqual(names, _names(
            traits.list_for_provider(self.ctx, self.provider.uuid).traits))

    def test_generation_conflict_comes_first(self):
        for generation in (1, -1, 2**31, 10**40):
            error = self.assertRaises(
                errors.ProviderGenerationConflict, self.replace, ["CUSTOM_NO"], generation)
            self.assertEqual("Resource provider's generation already changed. Please update "
                             "the generation and try again.", str(error))
            self.assertEqual("placement.concurrent_update", error.code)


@databases.on_each_database
class TestTraitRaces(base.DatabaseTestCase):

    def test_ensure_at_once(self):
        outcomes = races.run(*(
            functools.partial(traits.ensure, self.context(), "CUSTOM_A") for _ in range(6)))
        self.assertEqual([False] * 5 + [True], sorted(created for _, created in outcomes))

    def test_one_generation_one_winner(self):
        provider = factories.provider(self.ctx)
        outcomes = races.run(*(
            functools.partial(traits.replace_for_provider, self.context(), provider.uuid,
                              [name], generation=0)
            for name in ("HW_CPU_X86_MMX", "HW_CPU_X86_AVX", "HW_CPU_X86_SSE")))
        lost = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        self.assertEqual(["ProviderGenerationConflict"] * 2,
                         [type(error).__name__ for error in lost])

    def _attach(self, paused, provider):
        ctx = self.context()
        with db.write(ctx):
            traits.replace_for_provider(ctx, provider.uuid, ["CUSTOM_A"], generation=0)
            paused.here()

    def test_delete_waits_for_a_provider_that_gets_it(self):
        provider = factories.provider(self.ctx)
        traits.ensure(self.ctx, "CUSTOM_A")
        with races.Paused(functools.partial(self._attach, provider=provider)) as paused:
            outcome = paused.against(
                self.database, functools.partial(traits.delete, self.context(), "CUSTOM_A"))
        self.assertIsNone(paused.outcome)
        self.assertIsInstance(outcome, errors.TraitInUse)

    def test_attaching_waits_for_a_trait_that_is_being_removed(self):
        provider = factories.provider(self.ctx)
        traits.ensure(self.ctx, "CUSTOM_A")

        def remove(paused):
            ctx = self.context()
            with db.write(ctx):
                traits.delete(ctx, "CUSTOM_A")
                paused.here()

        with races.Paused(remove) as paused:
            outcome = paused.against(self.database, functools.partial(
                traits.replace_for_provider, self.context(), provider.uuid, ["CUSTOM_A"],
                generation=0))
        self.assertIsNone(paused.outcome)
        self.assertIsInstance(outcome, errors.UnknownTraits)
        self.assertEqual(0, providers.get(self.ctx, provider.uuid).generation)

    def test_provider_goes_while_it_gets_a_trait(self):
        provider = factories.provider(self.ctx)
        traits.ensure(self.ctx, "CUSTOM_A")
        with races.Paused(functools.partial(self._attach, provider=provider)) as paused:
            outcome = paused.against(
                self.database, functools.partial(providers.delete, self.context(), provider.uuid))
        self.assertEqual((None, None), (paused.outcome, outcome))
        with db.read(self.ctx) as session:
            self.assertEqual(
                [], session.execute(sa.select(tables.resource_provider_traits)).all())
