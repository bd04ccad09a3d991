"""Labels that are far from even, at close to their entropy.

Of quantised logits few levels are frequent, and neighbours in a row of classes depend on each other. bzip2 of rows, a
byte a label, comes within a few per cent of the entropy of each class's levels, as a range coder with a table per
class does (docs/results/fedkd.md), and is in the standard library.
"""

from __future__ import annotations

import bz2
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.wire.codec import Array, one_array
from fedballot.wire.messages import Arrays
from fedballot.wire.packing import WireError, label_bits, pack_labels, unpack_labels


@dataclass(frozen=True)
class CodedLabels:
    """Labels in ``range(n_values)``, shape (count,): bzip2 of a byte each where that is shorter than the packed bits.

    The length tells which of the two came: what is as long as packed labels is packed labels, what is longer is
    refused unread. So an answer is never longer than :func:`pack_labels` makes it, and reading one never takes more
    than a byte for each label beside bzip2's own 4 MB, whatever was sent.

    The length depends on the labels. It tells nothing that they do not, but whoever sees encrypted traffic sees it too.

    Parameters
    ----------
    count
        How many labels there are.
    n_values
        How many different ones there may be; more than 256 are packed and never coded.

    Examples
    --------
    >>> import numpy as np
    >>> codec = CodedLabels(8000, 16)
    >>> (array,) = codec.pack(np.repeat([0, 7], 4000))
    >>> array.size, codec.read([array])[3999:4001].tolist()
    (53, [0, 7])
    """

    count: int
    n_values: int
    array_count = 1

    @property
    def packed_size(self) -> int:
        """Bytes of the labels at ceil(log2 n_values) bits each."""
        return -(-self.count * label_bits(self.n_values) // 8)

    def pack(self, values: npt.NDArray[np.integer]) -> Arrays:
        """The shorter of both, uint8.

        Raises
        ------
        ValueError
            If a label is outside the range.
        """
        packed = pack_labels(values, self.n_values)
        if self.n_values > 256:
            return [packed]
        coded = bz2.compress(values.astype(np.uint8).tobytes())
        return [np.frombuffer(coded, dtype=np.uint8) if len(coded) < packed.size else packed]

    def read(self, arrays: Sequence[Array]) -> npt.NDArray[Any]:
        """The labels, int64.

        Raises
        ------
        WireError
            With reason ``count``, ``dtype``, ``shape``, ``range``, or ``coding`` where the stream is damaged, ends
            early, goes on, or holds another number of labels.
        """
        array = one_array(arrays)
        if array.dtype != np.uint8 or array.ndim != 1 or self.n_values > 256 or array.size >= self.packed_size:
            return unpack_labels(array, self.count, self.n_values)
        stream = bz2.BZ2Decompressor()
        try:
            octets = stream.decompress(array.tobytes(), max_length=self.count + 1)  # one too many is seen, and no more
        except (OSError, EOFError) as error:
            raise WireError("coding", f"{array.size} bytes are no bzip2 stream: {error}") from error
        if len(octets) > self.count:
            raise WireError("coding", f"the stream holds more than the {self.count} labels expected")
        if len(octets) < self.count or not stream.eof or stream.unused_data:
            state = "goes on after its end" if stream.unused_data else "is whole" if stream.eof else "ends early"
            raise WireError("coding", f"the stream {state} and holds {len(octets)} labels; expected {self.count}")
        labels = np.frombuffer(octets, dtype=np.uint8)
        if self.count and int(labels.max()) >= self.n_values:
            raise WireError("range", f"a label is {labels.max()}, allowed are 0..{self.n_values - 1}")
        return labels.astype(np.int64)
