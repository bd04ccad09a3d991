"""``fedballot pack``: what a privacy officer needs of a run or of a site, in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

pack_app = typer.Typer(
    no_args_is_help=True,
    help="A privacy officer's pack: reports, evaluation sheet, registry entry, software, hashes and signature.",
)

Out = Annotated[Path, typer.Option(metavar="FOLDER", help="The pack's folder; a new one, or an empty one.")]
Sign = Annotated[
    Path | None, typer.Option(metavar="KEY", help="Sign with it: the server's folder, or the file of a private key.")
]
Curator = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Who publishes it, for the registry; may be repeated.")
]
Purpose = Annotated[str, typer.Option(help="What it is meant for, for the registry.")]
Region = Annotated[str, typer.Option(help="Whose data, or whose law, for the registry.")]
Bill = Annotated[bool, typer.Option("--sbom/--no-sbom", help="With the list of all software (CycloneDX).")]


@pack_app.command("run", epilog="Example: fedballot pack run runs/eps1 --out packs/eps1 --sign server")
def pack_run(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    out: Out,
    sign: Sign = None,
    audit: Annotated[
        Path | None, typer.Option(metavar="DIR", help="What `fedballot audit METHOD --out DIR` found.")
    ] = None,
    curator: Curator = None,
    purpose: Purpose = "",
    region: Region = "",
    sbom: Bill = True,
) -> None:
    """What a run promises, what backs each statement, its model's card, and what it was made with."""
    from fedballot.deploy.officer.run_pack import Publisher, write_run_pack
    from fedballot.deploy.officer.seal import read_signer

    signer = None if sign is None else read_signer(sign.absolute())
    publisher = Publisher(tuple(curator or ()), purpose, region)
    print(write_run_pack(run, out, signer=signer, publisher=publisher, audit=audit, bill=sbom))


@pack_app.command("site", epilog="Example: fedballot pack site site.toml --out packs/2026 --sign site.key")
def pack_site(
    site_file: Annotated[Path, typer.Argument(metavar="SITE.TOML", help="The site's file.")],
    out: Out,
    sign: Sign = None,
    curator: Curator = None,
    purpose: Purpose = "",
    region: Region = "",
    sbom: Bill = True,
) -> None:
    """Every charge to a site's ledger, who asked and what for, what all of them mean. For the site's own people."""
    from fedballot.deploy.officer.run_pack import Publisher
    from fedballot.deploy.officer.seal import read_signer
    from fedballot.deploy.officer.site_pack import write_site_pack

    signer = None if sign is None else read_signer(sign.absolute())
    publisher = Publisher(tuple(curator or ()), purpose, region)
    print(write_site_pack(site_file, out, signer=signer, publisher=publisher, bill=sbom))
