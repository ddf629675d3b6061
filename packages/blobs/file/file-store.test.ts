import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from '@jest/globals'
import { describeBlobStore } from '../conformance/conformance.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-blobs-'))
let stores = 0

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

describeBlobStore('a folder', {
  createPlace: () => ({ url: `file:${join(root, String(stores++), 'blobs')}`, options: {} }),
})
