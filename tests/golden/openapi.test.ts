import { test } from '@jest/globals'
import { openApiDocument } from '@sluice/api/openapi/document'
import { operations } from '@sluice/api/operations'
import { expectGolden, prettyJson } from './golden.ts'

test('the OpenAPI document is that of the golden file', () => {
  const document = openApiDocument(operations, { version: '0.0.0' })
  expectGolden('openapi.json', `${prettyJson(document)}\n`)
})
