import { useState } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import { Button } from '../ui/button.tsx'

/** A parameter of the address that can't be understood, with its value. */
export interface AddressProblem {
  parameter: string
  value: string
}

/** Lists the invalid parameters of the page's address, with their values, until it is dismissed. */
export function AddressProblems({ problems }: { problems: readonly AddressProblem[] }) {
  const [dismissed, setDismissed] = useState('')
  const key = JSON.stringify(problems)
  if (problems.length === 0 || dismissed === key) return null
  return (
    <div class="notice address-problems" role="alert">
      <div class="grow">
        {problems.map(({ parameter, value }) => (
          <p key={parameter + value}>
            <bdi>{messages.errors.parameter(parameter, value)}</bdi>
          </p>
        ))}
      </div>
      <Button kind="quiet" icon="x" isIconOnly onClick={() => setDismissed(key)}>
        {messages.errors.dismiss}
      </Button>
    </div>
  )
}
