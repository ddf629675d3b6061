import { Readable } from 'node:stream'
import { expect, test } from '@jest/globals'
import { notFound } from '@sluice/runtime/errors'
import { openBlob } from './import-unit.ts'

const endless = () => new Readable({ read: () => undefined })

test('a lease that ends before a segment is open ends the work alone, and the segment is closed', async () => {
  const abort = new AbortController()
  const content = endless()
  const read = () => {
    abort.abort(new Error('the lease was lost'))
    return Promise.resolve(content)
  }
  await expect(openBlob({ read }, 'segment', abort.signal)).rejects.toThrow('the lease was lost')
  expect(content.destroyed).toBe(true)
  // An `error` event without a listener would end the process.
  expect(content.errored).toBeNull()
})

test('a lease that ends later ends the reading', async () => {
  const abort = new AbortController()
  const content = await openBlob({ read: () => Promise.resolve(endless()) }, 'segment', abort.signal)
  const reading = content?.toArray()
  abort.abort(new Error('the lease was lost'))
  await expect(reading).rejects.toThrow('aborted')
})

test('a segment that is not there is told from one that can not be read', async () => {
  const { signal } = new AbortController()
  expect(await openBlob({ read: () => Promise.reject(notFound('Blob')) }, 'segment', signal)).toBeUndefined()
  const read = () => Promise.reject(new Error('S3 is unavailable'))
  await expect(openBlob({ read }, 'segment', signal)).rejects.toThrow('S3 is unavailable')
})
