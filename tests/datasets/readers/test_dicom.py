"""DICOM and NIfTI: the files that pydicom and nibabel ship, as the scanners wrote them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.readers.dicom import is_dicom, read_dicom
from fedballot.datasets.readers.folders import read_folder
from fedballot.datasets.schema.hints import Hints
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.sources import load_as

pydicom = pytest.importorskip("pydicom", reason="pip install 'fedballot[medical]'")


def real(name: str) -> Path:
    return Path(pydicom.data.get_testdata_file(name, download=False))


def changed(path: Path, name: str = "CT_small.dcm", **values: object) -> Path:
    """A real file with other headers."""
    dataset = pydicom.dcmread(real(name))
    for key, value in values.items():
        if value is None:
            delattr(dataset, key)
        else:
            setattr(dataset, key, value)
    dataset.save_as(path)
    return path


def test_rescaled_values_in_the_range_of_their_bits(tmp_path: Path) -> None:
    """CT: 16 bits, signed, slope 1, intercept -1024, no window."""
    dataset = pydicom.dcmread(real("CT_small.dcm"))
    assert dataset.BitsStored == 16 and dataset.PixelRepresentation == 1 and "WindowCenter" not in dataset
    image = read_dicom(real("CT_small.dcm"))
    wanted = np.rint(255 * (dataset.pixel_array.astype(float) + 32768) / 65535)
    np.testing.assert_array_equal(image, wanted)
    # the same grey whatever the slope: it stretches values and their range alike
    np.testing.assert_array_equal(read_dicom(changed(tmp_path / "a", RescaleSlope=2.5, RescaleIntercept=7.0)), image)


def test_a_window_in_rescaled_units(tmp_path: Path) -> None:
    """C.11.2.1.2: a window of 400 around 40 (soft tissue), in Hounsfield units."""
    path = changed(tmp_path / "a.dcm", WindowCenter=40, WindowWidth=400)
    hounsfield = pydicom.dcmread(path).pixel_array.astype(float) - 1024
    wanted = np.clip((hounsfield - 39.5) / 399 + 0.5, 0, 1) * 255
    assert abs(read_dicom(path) - wanted).max() <= 0.5 + 1e-9
    assert np.ptp(read_dicom(path)) == 255
    several = changed(tmp_path / "b.dcm", WindowCenter=[40, 600], WindowWidth=[400, 1500])
    np.testing.assert_array_equal(read_dicom(several), read_dicom(path))


def test_monochrome1_is_inverted(tmp_path: Path) -> None:
    plain = changed(tmp_path / "a.dcm", WindowCenter=40, WindowWidth=400)
    inverted = changed(tmp_path / "b.dcm", WindowCenter=40, WindowWidth=400, PhotometricInterpretation="MONOCHROME1")
    np.testing.assert_array_equal(read_dicom(inverted), 255 - read_dicom(plain))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("MR_small.dcm", (64, 64)),
        ("MR_small_RLE.dcm", (64, 64)),
        ("MR_small_bigendian.dcm", (64, 64)),
        ("examples_palette.dcm", (350, 800, 3)),
        ("examples_rgb_color.dcm", (240, 320, 3)),
        ("SC_rgb_rle_16bit.dcm", (100, 100, 3)),
        ("SC_ybr_full_422_uncompressed.dcm", (100, 100, 3)),
        ("SC_rgb_jpeg_dcmtk.dcm", (100, 100, 3)),
    ],
)
def test_kinds_of_files(name: str, shape: tuple[int, ...]) -> None:
    image = read_dicom(real(name))
    assert image.dtype == np.uint8 and image.shape == shape and np.ptp(image) > 100
    if name.startswith("MR_small_"):
        np.testing.assert_array_equal(image, read_dicom(real("MR_small.dcm")))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SC_rgb_rle_2frame.dcm", "2 frames in one file"),
        ("rtplan.dcm", r"holds no pixels \(RTPLAN\)"),
        ("rtdose_1frame.dcm", "MONOCHROME2 of 32 bits; expected grey or colour of 1 to 16 bits"),
        ("MR_truncated.dcm", "cannot be decoded"),
        ("no_meta.dcm", "cannot be read as DICOM"),
        ("README.txt", "cannot be read as DICOM"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, name: str, words: str) -> None:
    shutil.copy(real("CT_small.dcm").with_name(name), tmp_path / "a.dcm")
    with pytest.raises(DataError, match=f"a.dcm: .*{words}"):
        read_dicom(tmp_path / "a.dcm")


def test_folders_and_tables_of_dicom(tmp_path: Path) -> None:
    """With and without a suffix, beside other kinds of images, of several sizes."""
    for name, place in (("CT_small.dcm", "ct/IM0001"), ("MR_small.dcm", "mr/a.dcm"), ("MR_small_RLE.dcm", "mr/b.DCM")):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        shutil.copy(real(name), tmp_path / place)
    assert is_dicom(tmp_path / "ct" / "IM0001")
    with pytest.raises(DataError, match=r"a.dcm: 64x64 pixels, but .*IM0001 has 128x128"):
        read_folder(tmp_path)
    reading = Reading(hints=Hints(image_size=(32, 32)))
    source = load_as(str(tmp_path), reading)
    assert source.train.x.shape == (3, 32, 32) and source.classes == ("ct", "mr")
    (tmp_path / "scans.csv").write_text("scan,label\nmr/a.dcm,mr\nmr/b.DCM,mr\nct/c.dcm,ct\n")
    shutil.copy(real("rtplan.dcm"), tmp_path / "ct" / "c.dcm")
    with pytest.raises(DataError, match=r"scans.csv: line 4, column scan: .*c.dcm: holds no pixels"):
        load_as(str(tmp_path / "scans.csv"), reading)
    shutil.copy(real("CT_small.dcm"), tmp_path / "ct" / "c.dcm")
    table = load_as(str(tmp_path / "scans.csv"), reading)
    np.testing.assert_array_equal(table.train.x, source.train.x[[1, 2, 0]])


def test_without_pydicom_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pydicom", None)
    with pytest.raises(DataError, match=r"DICOM needs pydicom; run pip install 'fedballot\[medical\]'"):
        read_dicom(real("CT_small.dcm"))


def test_slices_and_volumes_by_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nibabel = pytest.importorskip("nibabel", reason="pip install 'fedballot[medical]'")
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "examples" / "medical")
    data = Path(nibabel.__file__).parent / "tests" / "data"
    for name, place in (
        ("anatomical.nii", "anatomy/a.nii"),
        ("functional.nii", "function/b.nii"),
        ("example4d.nii.gz", "function/c.nii.gz"),
    ):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        shutil.copy(data / name, tmp_path / place)
    for reader, shape in (("middle_slice", (3, 24, 24)), ("three_planes", (3, 24, 24, 3))):
        reading = Reading(hints=Hints(image_size=(24, 24)), image_reader=f"middle_slices:{reader}")
        x = load_as(str(tmp_path), reading).train.x
        assert x.shape == shape and all(np.ptp(image) > 100 for image in x)
    import middle_slices

    volume = middle_slices.read(data / "anatomical.nii")
    image = middle_slices.middle_slice(data / "anatomical.nii")
    assert image.shape == volume.shape[1::-1]
    plane = volume[:, :, volume.shape[2] // 2]
    brightest = np.unravel_index(plane.argmax(), plane.shape)
    assert image[plane.shape[1] - 1 - brightest[1], brightest[0]] == image.max()  # anterior is up
