import { expect, test } from '@jest/globals'
import { exportFileName, exportMediaType } from './export-files.ts'

const csv = { format: 'csv' } as const

test.each([
  ['All events', 'All events.csv'],
  ['../../etc/passwd', '_._.._etc_passwd.csv'],
  ['C:\\a<b>"c"|d?*', 'C__a_b__c__d__.csv'],
  ['line\r\nbreak\u2028\u202e', 'line__break__.csv'],
  ['.htaccess', '_htaccess.csv'],
  [' ', 'export.csv'],
  ['Käufe 日本', 'Käufe 日本.csv'],
])('the file of the export %j is %j', (name, expected) => {
  expect(exportFileName(name, csv)).toBe(expected)
})

test('the extensions are those of the content', () => {
  expect(exportFileName('a', { format: 'ndjson', compression: 'gzip' })).toBe('a.ndjson.gz')
  expect(exportFileName('a', { format: 'json', compression: 'zstd' })).toBe('a.json.zst')
  expect(exportFileName('a', { format: 'parquet' })).toBe('a.parquet')
})

test('a run is distinguished by its time', () => {
  expect(exportFileName('a', csv, Date.UTC(2026, 10, 22, 9, 5))).toBe('a 2026-11-22T09.05Z.csv')
})

test('a long name is cut between characters to what file systems take', () => {
  const fileName = exportFileName('😀'.repeat(256), { format: 'ndjson', compression: 'gzip' }, 0)
  expect(fileName).toMatch(/^(😀){50} 1970-01-01T00\.00Z\.ndjson\.gz$/u)
  expect(Buffer.byteLength(fileName)).toBeLessThanOrEqual(255)
})

test('a compressed file is one of its compression', () => {
  expect(exportMediaType(csv)).toBe('text/csv; charset=utf-8')
  expect(exportMediaType({ format: 'csv', compression: 'gzip' })).toBe('application/gzip')
  expect(exportMediaType({ format: 'json', compression: 'zstd' })).toBe('application/zstd')
})
