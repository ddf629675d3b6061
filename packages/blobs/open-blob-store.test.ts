import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { loadConfig } from '@sluice/runtime/config'
import { openBlobStore } from './open-blob-store.ts'
import { blobsUrl, blobsUrlOrEmbedded, s3Credentials, s3CredentialsOf } from './variables.ts'

describe('SLUICE_BLOBS_URL', () => {
  const load = (url?: string) => loadConfig({ SLUICE_BLOBS_URL: blobsUrl }, { SLUICE_BLOBS_URL: url })

  test.each(['file:data/blobs', 'file:///var/lib/blobs', 's3://sluice/a?region=eu-central-1'])('%s is taken', (url) => {
    expect(load(url)).toEqual({ SLUICE_BLOBS_URL: url })
  })

  test.each([
    [undefined, 'SLUICE_BLOBS_URL is required'],
    ['http://minio', 'must start with "s3:" or "file:"'],
    ['file:', 'names no folder'],
    ['s3://sluice', 'SLUICE_BLOBS_URL: the region is missing'],
  ])('%s is refused', (url, mistake) => expect(() => load(url)).toThrow(mistake))

  test('may be unset where there is a data folder', () => {
    expect(loadConfig({ SLUICE_BLOBS_URL: blobsUrlOrEmbedded }, {})).toEqual({})
  })

  test('names the adapter', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-blobs-'))
    try {
      const store = await openBlobStore(`file:${folder}`)
      await store.check()
      await store.close()
    } finally {
      rmSync(folder, { recursive: true })
    }
    await (await openBlobStore('s3://sluice?region=eu-central-1')).close()
    await expect(openBlobStore('memory:')).rejects.toThrow('SLUICE_BLOBS_URL: expected')
    await expect(openBlobStore('s3://sluice')).rejects.toThrow('the region is missing')
  })
})

describe('the credentials of S3', () => {
  const read = (id?: string, secret?: string) =>
    s3CredentialsOf(loadConfig(s3Credentials, { SLUICE_S3_ACCESS_KEY_ID: id, SLUICE_S3_SECRET_ACCESS_KEY: secret }))

  test('are both set, or neither', () => {
    const mistake = 'SLUICE_S3_ACCESS_KEY_ID and SLUICE_S3_SECRET_ACCESS_KEY must be set both, or neither'
    expect(() => read('a')).toThrow(mistake)
    expect(() => read(undefined, 'b')).toThrow(mistake)
  })

  test('are those of the configuration, or of the machine', () => {
    expect(read()).toBeUndefined()
    expect(read('a', 'b/+=')).toEqual({ accessKeyId: 'a', secretAccessKey: 'b/+=' })
  })

  test('have no line break at their end, and are not quoted', () => {
    expect(() => read('a', 's3cr3t\n')).toThrow('SLUICE_S3_SECRET_ACCESS_KEY holds characters other than visible')
    expect(() => read('a', 's3cr3t\n')).not.toThrow('s3cr3t')
  })
})
