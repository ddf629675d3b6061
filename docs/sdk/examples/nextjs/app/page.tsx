'use client'
import Link from 'next/link'
import { useState } from 'react'
import { order } from './order.ts'

export default function Shop() {
  const [state, setState] = useState('')
  const buy = (): void => {
    setState('Ordering…')
    order(12.5).then(
      () => setState('Ordered'),
      () => setState('The order failed. Try again.'),
    )
  }
  return (
    <main>
      <h1>A shop</h1>
      <button onClick={buy}>Order</button>
      <p role="status">{state}</p>
      <Link href="/about">About us</Link>
    </main>
  )
}
