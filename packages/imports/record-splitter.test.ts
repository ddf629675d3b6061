import { describe, expect, test } from '@jest/globals'
import { allOf, chunksOf, streamOf } from '../../tests/support/chunks.ts'
import { startCpuStopwatch } from '../../tests/support/stopwatch.ts'
import { fileLimits } from './file-limits.ts'
import { splitRecords } from './record-splitter.ts'

const { recordBytesMax } = fileLimits

/** The records of a file as `line: text`, errors as `line! message`. */
async function recordsOf(file: string | Buffer, chunks?: Buffer[]): Promise<string[]> {
  const { records } = await splitRecords(streamOf(...(chunks ?? [Buffer.from(file as string)])), chunks && 1)
  const found: string[] = []
  for await (const list of records) {
    for (const { line, bytes, error } of list) {
      found.push(bytes === undefined ? `${line}! ${error}` : `${line}: ${bytes.toString()}`)
    }
  }
  return found
}

const notClosed = 'Invalid format: a quoted field is not closed'
const textAfterQuote = 'Invalid format: text follows a quoted field'
const recordTooLarge = 'Invalid format: record is larger than 1048576 bytes'
const endsEarly = 'Invalid format: the file ends before its list does'

test.each([
  ['[1]', { format: 'json' }],
  ['\uFEFF \r\n\t[{}]', { format: 'json' }],
  ['{"a":1}', { format: 'ndjson' }],
  ['\n\n {"a":1}', { format: 'ndjson' }],
  ['user_id,name\nu,n', { format: 'csv', delimiter: ',', columns: ['user_id', 'name'] }],
  ['\uFEFF\n\nuser_id;"na,m,e"\nu;n', { format: 'csv', delimiter: ';', columns: ['user_id', 'na,m,e'] }],
  ['user_id\temail\tname,\nu\te\tn', { format: 'csv', delimiter: '\t', columns: ['user_id', 'email', 'name,'] }],
  ['user_id\nu', { format: 'csv', delimiter: ',', columns: ['user_id'] }],
  ['"a\nb",c\r1,2', { format: 'csv', delimiter: ',', columns: ['a\nb', 'c'] }],
  ['\tb\n1\t2', { format: 'csv', delimiter: '\t', columns: ['', 'b'] }],
])('the content tells the format: %j', async (text, layout) => {
  const file = await splitRecords(streamOf(text))
  expect(file.layout).toEqual(layout)
  await file.records.return(undefined)
})

describe('a file is refused', () => {
  const columns = (count: number) => Array.from({ length: count }, (_, n) => `c${n}`).join(',')
  test.each([
    ['that holds white space only', ' \n\r\n\t', 'file holds no record'],
    ['that holds a byte order mark only', '\uFEFF', 'file holds no record'],
    ['with 2,001 columns', `${columns(2_001)}\n`, 'header has 2001 columns, more than 2000'],
    ['with a column twice', 'user_id,name,user_id\n', 'header names column "user_id" twice'],
    ['whose header opens a quote', 'user_id,"name\nu,n\n', 'header: a quoted field is not closed'],
    ['whose header is not UTF-8', Buffer.from('user_id,n\xe4me\nu,n', 'latin1'), 'header is not valid UTF-8'],
    ['without an end of its header', 'x'.repeat(recordBytesMax + 1), 'header: record is larger than 1048576 bytes'],
  ])('%s', async (_what, file, problem) => {
    await expect(recordsOf(file)).rejects.toMatchObject({
      code: 'invalid_format',
      message: `Invalid format: ${problem}`,
    })
  })

  test('but not with 2,000 columns', async () => {
    expect(await recordsOf(`${columns(2_000)}\n1`)).toEqual(['2: 1'])
  })
})

describe('records of CSV', () => {
  test.each([
    ['end with LF, CRLF or CR, mixed', 'a,b\r\n1,2\n3,4\r5,6\r\n\n\r\r\n7,8', ['2: 1,2', '3: 3,4', '4: 5,6', '8: 7,8']],
    ['may hold lines in quotes', 'a,b\n1,"x\ny\r\nz\rw"\n2,3', ['2: 1,"x\ny\r\nz\rw"', '6: 2,3']],
    ['may hold quotes', 'a,b\n"x"",""\n",5" x\n7,8"', ['2: "x"",""\n",5" x', '4: 7,8"']],
    ['are found behind an unclosed quote', 'a,b\n1,"x\n2,y\n3,z', [`2! ${notClosed}`, '3: 2,y', '4: 3,z']],
    [
      'are found behind text after a quote',
      'a,b\n1,"x"y\n2,"y"\n3,"z" ',
      [`2! ${textAfterQuote}`, '3: 2,"y"', `4! ${textAfterQuote}`],
    ],
    [
      'are found behind a quote that the next record closes',
      'a,b\n1,"x\n2,"y"\n3,z',
      [`2! ${textAfterQuote}`, '3: 2,"y"', '4: 3,z'],
    ],
    ['need no end of the last line', 'a,b\n1,""', ['2: 1,""']],
    ['are none after a header only', 'a,b\r\n\r\n', []],
  ])('%s', async (_what, file, expected) => {
    const bytes = Buffer.from(file)
    expect(await recordsOf(bytes)).toEqual(expected)
    expect(await recordsOf(bytes, chunksOf(bytes, [1]))).toEqual(expected)
  })

  test('are found behind an unclosed quote that nothing closes for 1 MiB', async () => {
    const rows = Array.from({ length: 200_000 }, (_, n) => `row ${n},x`)
    const expected = [`2! ${notClosed}`, ...rows.map((row, n) => `${n + 3}: ${row}`)]
    expect(await recordsOf(`a,b\n1,"x\n${rows.join('\n')}`)).toEqual(expected)
  })

  test('are found behind one that is larger than 1 MiB', async () => {
    const plain = 'x'.repeat(recordBytesMax)
    expect(await recordsOf(`a\n${plain}\n${plain}x\n1`)).toEqual([`2: ${plain}`, `3! ${recordTooLarge}`, '4: 1'])
    const quoted = `"${'x'.repeat(recordBytesMax - 2)}"`
    expect(await recordsOf(`a\n${quoted}\n${quoted},\n1`)).toEqual([`2: ${quoted}`, `3! ${recordTooLarge}`, '4: 1'])
    expect(await recordsOf(`a\n${plain}${plain}${plain}`)).toEqual([`2! ${recordTooLarge}`])
    expect(await recordsOf(`a\n"${plain}${plain}\n1`)).toEqual([`2! ${notClosed}`, '3: 1'])
  })

  test('are all counted, and read in linear time, in a file that opens a quote in every line', async () => {
    const lines = 1_500_000
    const elapsedMs = startCpuStopwatch()
    const found = await recordsOf(`a,b\n${'x","\n'.repeat(lines)}${'y,z\n'.repeat(lines)}`)
    expect(elapsedMs()).toBeLessThan(10_000)
    expect(found.at(0)).toMatch(/^2! /)
    // Lines are counted however many of them a failure took.
    expect(found.at(-1)).toBe(`${2 * lines + 1}: y,z`)
  })
})

describe('records of NDJSON', () => {
  test.each([
    [
      'are lines that hold more than white space',
      '{"a":1}\n\r\n \t\n{"b":2}\r\n[3',
      ['1: {"a":1}', '4: {"b":2}\r', '5: [3'],
    ],
  ])('%s', async (_what, file, expected) => {
    const bytes = Buffer.from(file)
    expect(await recordsOf(bytes)).toEqual(expected)
    expect(await recordsOf(bytes, chunksOf(bytes, [1]))).toEqual(expected)
  })

  test('are found behind one that is larger than 1 MiB', async () => {
    const large = `{"a":"${'x'.repeat(3 * recordBytesMax)}"}`
    expect(await recordsOf(`{}\n${large}\n{}`)).toEqual(['1: {}', `2! ${recordTooLarge}`, '3: {}'])
    const justFits = `{${' '.repeat(recordBytesMax - 2)}}`
    expect(await recordsOf(justFits)).toEqual([`1: ${justFits}`])
  })
})

describe('records of a JSON list', () => {
  test.each([
    [
      'are its elements',
      ' \n[{"a":[1,{"b":"],[\\"{"}]},\n [2] ,"x\\\\", 4.5\n]\n',
      ['2: {"a":[1,{"b":"],[\\"{"}]}', '3: [2] ', '3: "x\\\\"', '3: 4.5\n'],
    ],
    ['are none in an empty list', '[ \n ]', []],
    ['are not what stands between two commas', '[,{},,\n,{},]', ['1: {}', '2: {}']],
    ['are read as far as a list goes', '[{"a":1},\n{"b":2}', ['1: {"a":1}', '2: {"b":2}', `2! ${endsEarly}`]],
    ['are read up to one that ends early', '[{"a":1},\n{"b":2,\n', ['1: {"a":1}', `2! ${endsEarly}`]],
    ['are read up to a text that ends early', '[{"a":1},\n"\\', ['1: {"a":1}', `2! ${endsEarly}`]],
    [
      'are found behind bad JSON',
      '[{"a":},{"b":1}},{"c":[}},{"d":4}]',
      ['1: {"a":}', '1: {"b":1}}', '1: {"c":[}}', '1: {"d":4}'],
    ],
    [
      'are found in the line after an unclosed text',
      '[{"a":"x},\n{"b":2},\n{"c":"\\\n},{"d":4}]',
      ['1: {"a":"x},', '2: {"b":2}', '3: {"c":"\\', '4: }', '4: {"d":4}'],
    ],
    [
      'are none after the list',
      '[{}]\n\n{} []',
      ['1: {}', '3! Invalid format: the file has content after the end of its list'],
    ],
  ])('%s', async (_what, file, expected) => {
    const bytes = Buffer.from(file)
    expect(await recordsOf(bytes)).toEqual(expected)
    expect(await recordsOf(bytes, chunksOf(bytes, [1]))).toEqual(expected)
  })

  test('are found behind one that is larger than 1 MiB', async () => {
    const large = `{"a":"${'x'.repeat(3 * recordBytesMax)}",\n"b":[{}]}`
    expect(await recordsOf(`[{},${large},\n{}]`)).toEqual(['1: {}', `1! ${recordTooLarge}`, '3: {}'])
  })
})

test('an error of the file is thrown as it is, and a file whose records are not wanted is closed', async () => {
  const error = new Error('the client has disconnected')
  const closed: boolean[] = []
  async function* file(): AsyncGenerator<Buffer> {
    try {
      yield await Promise.resolve(Buffer.from(`a\n${'x\n'.repeat(300_000)}`))
      throw error
    } finally {
      closed.push(true)
    }
  }
  const { records } = await splitRecords(file())
  await expect(allOf(records)).rejects.toBe(error)
  const unwanted = await splitRecords(file())
  await unwanted.records.next()
  await unwanted.records.return(undefined)
  expect(closed).toEqual([true, true])
})
