import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { sdkMutations as browserMutations } from '../sdk-browser/mutations.ts'
import { sdkMutations as nodeMutations } from '../sdk-node/mutations.ts'
import { mutations } from './mutations.ts'

const all = [...mutations, ...browserMutations, ...nodeMutations]

test.each(all.flatMap(({ name, edits }) => edits.map((edit) => ({ name, ...edit }))))(
  'the mutation "$name" finds its text exactly once in $file',
  ({ file, from }) => {
    const text = readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), 'utf8')
    expect(text.split(from)).toHaveLength(2)
  },
)
