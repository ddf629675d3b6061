export default function About() {
  return <h1>About us</h1>
}
