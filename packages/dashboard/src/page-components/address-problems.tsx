import { messages } from '../messages/en.ts'

/** Lists the invalid parameters of the page's address, with their values. */
export function AddressProblems({ problems }: { problems: readonly (readonly [parameter: string, value: string])[] }) {
  return problems.map(([parameter, value]) => (
    <p key={parameter} class="notice" role="alert">
      <bdi>{messages.errors.parameter(parameter, value)}</bdi>
    </p>
  ))
}
