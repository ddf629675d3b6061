import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { mutations } from './mutations.ts'

test.each(mutations.flatMap(({ name, edits }) => edits.map((edit) => ({ name, ...edit }))))(
  'the mutation "$name" finds its text exactly once in $file',
  ({ file, from }) => {
    const text = readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), 'utf8')
    expect(text.split(from)).toHaveLength(2)
  },
)
