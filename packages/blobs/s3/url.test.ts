import { describe, expect, test } from '@jest/globals'
import { parseS3Url } from './url.ts'

describe('an s3: URL', () => {
  test.each([
    ['s3://sluice?region=eu-central-1', { bucket: 'sluice', prefix: '', region: 'eu-central-1', endpoint: undefined }],
    ['s3://sluice/?region=us-west-2', { prefix: '' }],
    ['s3://my.bucket-1/a/b.c/?region=us-west-2', { bucket: 'my.bucket-1', prefix: 'a/b.c/' }],
    [
      's3://sluice/a?endpoint=http://127.0.0.1:8333',
      { prefix: 'a/', region: 'us-east-1', endpoint: 'http://127.0.0.1:8333' },
    ],
    ['s3://sluice?endpoint=https%3A%2F%2Fminio.local%2F&region=here', { region: 'here' }],
  ])('%s is read', (url, expected) => expect(parseS3Url(url)).toMatchObject(expected))

  test.each([
    ['s3:sluice?region=a', 'expected s3://bucket'],
    ['http://sluice', 'expected s3://bucket'],
    ['s3://sluice', 'the region is missing'],
    ['s3://sluice?region=EU', 'the region is made of'],
    ['s3://AB?region=a', 'the bucket has 3 to 63'],
    ['s3://ab?region=a', 'the bucket has 3 to 63'],
    ['s3://sluice:80?region=a', 'the bucket has 3 to 63'],
    ['s3:///a?region=a', 'the bucket has 3 to 63'],
    ['s3://sluice/a b?region=a', 'the prefix is made of'],
    ['s3://sluice//a?region=a', 'the prefix is made of'],
    ['s3://sluice/.a?region=a', 'the prefix is made of'],
    ['s3://sluice?region=a#b', '"#" has no meaning'],
    ['s3://sluice?region=a&region=b', '"region" is given twice'],
    ['s3://sluice?region=a&tls=true', 'unknown parameter (known: '],
    ['s3://sluice?endpoint=minio:9000', '"endpoint" is not http'],
    ['s3://sluice?endpoint=http://u:p@minio', '"endpoint" takes no credentials'],
    ['s3://sluice?endpoint=http://minio/a', '"endpoint" ends after the port'],
  ])('%s is refused', (url, mistake) => {
    expect(() => parseS3Url(url)).toThrow(mistake)
    expect(() => parseS3Url(url)).toThrow('SLUICE_BLOBS_URL: ')
  })

  test('with credentials is refused without a word of them, and with every other mistake', () => {
    const parse = () => parseS3Url('s3://AKIA1:s3cr3t@AB?x=1')
    expect(parse).toThrow(/SLUICE_S3_ACCESS_KEY_ID.*; the bucket .*; unknown parameter .*; the region is missing/)
    expect(parse).not.toThrow(/AKIA1|s3cr3t/)
  })
})
