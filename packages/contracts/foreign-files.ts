/**
 * Kinds of files that are neither text nor gzip, with the end of the sentence that says what to do about one. `magic` is
 * how the file begins, each character standing for the byte of its code.
 */
export const foreignFiles: readonly { magic: string; problem: string }[] = [
  { magic: '\xd0\xcf\x11\xe0', problem: 'is an Excel workbook: export it as CSV or JSON in UTF-8' },
  { magic: 'PAR1', problem: 'is Parquet: export it as CSV or JSON in UTF-8' },
  { magic: '\x28\xb5\x2f\xfd', problem: 'is compressed with zstd: unpack it, or use gzip' },
  { magic: 'BZh', problem: 'is compressed with bzip2: unpack it, or use gzip' },
  { magic: '\xfd7zX', problem: 'is compressed with xz: unpack it, or use gzip' },
]
